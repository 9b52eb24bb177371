/** What a page of the console makes of the events of its stream. */
import { describe, expect, it } from 'vitest';
import { EventLines } from '../../src/console/api/event-lines.js';
import { backoffMs } from '../../src/console/api/backoff.js';
import { History } from '../../src/console/state/history.js';
import { Things } from '../../src/console/state/things.js';

const counter = (name: string, value: number): unknown => ({ kind: 'counter', name, state: { name, value } });

describe('the things of a page', () => {
  it('are those of the last state, as changed since', () => {
    const things = new Things();
    things.apply({ event: 'state', data: { items: [counter('a', 1), counter('b', 2)] } });
    expect(things.apply({ event: 'changed', data: counter('a', 3) })).toEqual(['counter']);
    expect(things.apply({ event: 'gone', data: { kind: 'counter', name: 'b' } })).toEqual(['counter']);
    expect([...things.of('counter').values()]).toEqual([{ name: 'a', value: 3 }]);
  });

  it('are replaced by the state of a new stream: what went meanwhile is not kept', () => {
    const things = new Things();
    things.apply({ event: 'state', data: { items: [counter('old', 1)] } });
    things.apply({ event: 'state', data: { items: [counter('new', 1)] } });
    expect([...things.of('counter').keys()]).toEqual(['new']);
  });

  it('stay as they are after an event that is not known, or of a kind that is not', () => {
    const things = new Things();
    things.apply({ event: 'state', data: { items: [counter('a', 1), { kind: 'novelty', name: 'x', state: {} }] } });
    expect(things.apply({ event: 'changed', data: { kind: 'novelty', name: 'x', state: {} } })).toEqual([]);
    expect(things.apply({ event: 'novelty', data: counter('a', 9) })).toEqual([]);
    expect(things.apply({ event: 'gone', data: { kind: 'counter', name: 'never' } })).toEqual([]);
    expect(things.of('counter').get('a')).toEqual({ name: 'a', value: 1 });
  });
});

describe('the lines of a stream', () => {
  const TEXT = ': nothing new\nretry: 700\nevent: changed\nid: 2026-01-01T00:00:00.000Z\ndata: {"name":"ä"}\n\n';
  const EVENT = { event: 'changed', id: '2026-01-01T00:00:00.000Z', data: { name: 'ä' }, retryMs: 700 };

  it.each([1, 2, 7, TEXT.length])('are read in pieces of %i characters', (size) => {
    const lines = new EventLines();
    const pieces = TEXT.match(new RegExp(`[\\s\\S]{1,${size}}`, 'g')) ?? [];
    expect(pieces.flatMap((piece) => lines.read(piece))).toEqual([EVENT]);
  });

  it('may end with a carriage return', () => {
    expect(new EventLines().read(TEXT.replaceAll('\n', '\r\n'))).toEqual([EVENT]);
  });

  it('are no event without data', () => {
    expect(new EventLines().read('event: changed\n\ndata: 1\n\n')).toMatchObject([{ event: 'message', data: 1 }]);
  });
});

describe('the pause before another try', () => {
  it('doubles up to a bound, and never vanishes', () => {
    expect([0, 1, 2, 3].map((failures) => backoffMs(failures, 1))).toEqual([500, 1_000, 2_000, 4_000]);
    expect(backoffMs(1_000, 1)).toBe(15_000);
    expect(backoffMs(1_000, 0)).toBe(7_500);
    expect(backoffMs(0, 0)).toBe(250);
  });
});

describe('the history of a plot', () => {
  it('keeps the newest samples, as many as it may', () => {
    const history = new History(3);
    for (let at = 1; at <= 5; at += 1) history.add({ at, held: at * 10, waiting: at });
    expect(history.columns).toEqual([
      [3, 4, 5],
      [30, 40, 50],
      [3, 4, 5],
    ]);
  });
});
