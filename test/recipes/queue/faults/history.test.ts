/** The judge is judged: histories that a queue can have, and such that it cannot. */
import { describe, expect, test } from 'vitest';
import { QueueHistory, type AckRecord, type TakeRecord } from './history.js';

/** Two pushes, one after the other, in two requests: `a` and `b` in the first, `c` in the second. */
function history(takes: readonly Partial<TakeRecord>[] = [], acks: readonly Partial<AckRecord>[] = []): QueueHistory {
  const result = new QueueHistory();
  result.pushes.push({ ids: ['a', 'b'], begin: 0, end: 10 }, { ids: ['c'], begin: 20, end: 30 });
  for (const take of takes) result.takes.push({ consumer: 'x', begin: 100, end: 110, items: [], ...take });
  for (const ack of acks) result.acks.push({ id: '?', consumer: 'x', end: 200, outcome: 'done', ...ack });
  return result;
}

const first = (...ids: string[]): { id: string; deliveries: number }[] => ids.map((id) => ({ id, deliveries: 1 }));
const ALL_ACKED = [{ id: 'a' }, { id: 'b' }, { id: 'c' }];

describe('a queue can have done this', () => {
  test.each<[string, QueueHistory]>([
    ['in order, acknowledged once', history([{ items: first('a', 'b', 'c') }], ALL_ACKED)],
    [
      'taken at once by two, in either order',
      history([{ items: first('c') }, { consumer: 'y', begin: 105, end: 120, items: first('a', 'b') }], ALL_ACKED),
    ],
    [
      'came back to its place and was delivered late',
      history(
        [{ items: first('b', 'c') }, { begin: 150, end: 160, items: [{ id: 'a', deliveries: 2 }] }],
        [...ALL_ACKED, { id: 'a', consumer: 'dead', outcome: 'lost', end: 140 }],
      ),
    ],
    [
      'an acknowledgement in doubt, and no second delivery',
      history([{ items: first('a', 'b', 'c') }], [{ id: 'a', outcome: 'unknown' }, { id: 'b' }, { id: 'c' }]),
    ],
  ])('%s', (_what, given) => expect(given.violations('claim')).toEqual([]));

  test('a pop that is in doubt may have taken as many as it asked for', () => {
    const given = history([{ items: first('a', 'c') }]);
    given.popsInDoubt = 1;
    expect(given.violations('pop')).toEqual([]);
  });
});

describe('no queue can have done this', () => {
  test.each<[string, QueueHistory, RegExp]>([
    ['lost', history([{ items: first('a', 'b', 'c') }], [{ id: 'a' }, { id: 'c' }]), /b is lost/],
    [
      'acknowledged twice',
      history([{ items: first('a', 'b', 'c') }], [...ALL_ACKED, { id: 'b', consumer: 'y' }]),
      /b was acknowledged by x and by y/,
    ],
    ['out of nothing', history([{ items: first('a', 'b', 'c', 'd') }], ALL_ACKED), /d, which nobody pushed/],
    [
      'delivered after its acknowledgement',
      history(
        [{ items: first('a', 'b', 'c') }, { begin: 300, end: 310, items: [{ id: 'b', deliveries: 2 }] }],
        ALL_ACKED,
      ),
      /b after it was acknowledged/,
    ],
    [
      'overtaken by a later request',
      history([{ items: first('c') }, { begin: 120, end: 130, items: first('a', 'b') }], ALL_ACKED),
      /c was given out before a/,
    ],
    [
      'overtaken within a request',
      history([{ items: first('b') }, { begin: 120, end: 130, items: first('a', 'c') }], ALL_ACKED),
      /b was given out before a/,
    ],
    ['out of order in one answer', history([{ items: first('a', 'c', 'b') }], ALL_ACKED), /c before b/],
  ])('%s', (_what, given, says) => expect(given.violations('claim').join('\n')).toMatch(says));

  test('popped twice', () => {
    const given = history([
      { items: first('a', 'b', 'c') },
      { consumer: 'y', begin: 300, end: 310, items: first('a') },
    ]);
    expect(given.violations('pop').join('\n')).toMatch(/a was popped by x and by y/);
  });

  test('popped by nobody, and no pop in doubt', () => {
    expect(
      history([{ items: first('a', 'c') }])
        .violations('pop')
        .join('\n'),
    ).toMatch(/1 are lost/);
  });
});
