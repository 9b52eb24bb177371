/**
 * What is looked for in histories of queues whose messages are claimed: a right history, and one that is wrong for each
 * thing that can be.
 */
import { describe, expect, it } from 'vitest';
import {
  claimComplaints,
  groupedComplaints,
  type ClaimInput,
  type ClaimOperation,
  type ClaimOutput,
} from './claims.js';

const TTL_MS = 100;

class Told {
  readonly operations: ClaimOperation[] = [];

  add(client: string, begin: number, end: number, input: ClaimInput, output?: ClaimOutput): this {
    this.operations.push({ client, begin, end, input, output });
    return this;
  }

  lease(client: string, ...heartbeats: number[]): this {
    for (const at of heartbeats)
      this.add(client, at, at + 1, { do: 'lease-lives', lease: client, ttlMs: TTL_MS }, { ok: true });
    return this;
  }

  push(begin: number, end: number, ...ids: string[]): this {
    return this.add('p', begin, end, { do: 'push', ids }, end === Infinity ? undefined : { pushed: true });
  }

  claim(lease: string, begin: number, end: number, id: string, deliveries = 1): this {
    const items = [{ id, deliveries, claimId: `${id} of ${lease}` }];
    return this.add(lease, begin, end, { do: 'claim', lease }, { items });
  }

  ack(lease: string, begin: number, end: number, id: string, result?: 'done' | 'again' | 'lost'): this {
    const input = { do: 'ack', lease, id, claimId: `${id} of ${lease}` } as const;
    return this.add(lease, begin, end, input, result && { result });
  }

  complaints(): string[] {
    return claimComplaints(this.operations, { touchLagMs: 0 });
  }
}

const told = (): Told => new Told();

describe('a message', () => {
  it('is acknowledged once, by whoever had it last', () => {
    const right = told()
      .lease('a', 0)
      .lease('b', 0, 90)
      .push(0, 1, '1')
      .claim('a', 2, 3, '1')
      .claim('b', 104, 105, '1', 2)
      .ack('a', 110, 111, '1', 'lost')
      .ack('b', 112, Infinity, '1')
      .ack('b', 113, 114, '1', 'again');
    expect(right.complaints()).toEqual([]);
  });

  it('is not acknowledged twice', () => {
    const twice = told().lease('a', 0).lease('b', 0).push(0, 1, '1').claim('a', 2, 3, '1').ack('a', 4, 5, '1', 'done');
    expect(twice.complaints()).toEqual([]);
    expect(twice.ack('b', 6, 7, '1', 'done').complaints()).toContain('1 was acknowledged by a and by b');
  });

  it('is not lost', () => {
    expect(told().push(0, 1, '1').complaints()).toEqual(['1 is lost: it was pushed and never acknowledged']);
    expect(told().push(0, Infinity, '1').complaints()).toEqual([]);
    const doubtful = told().lease('a', 0).push(0, 1, '1').claim('a', 2, 3, '1').ack('a', 4, Infinity, '1');
    expect(doubtful.complaints()).toEqual([]);
  });

  it('is not lost once somebody got it, though its push was of unknown outcome', () => {
    const seen = told().lease('a', 0).push(0, Infinity, '1').claim('a', 2, 3, '1');
    expect(seen.complaints()).toEqual(['1 is lost: it was pushed and never acknowledged']);
    expect(seen.ack('a', 4, 5, '1', 'done').complaints()).toEqual([]);
  });

  it('is given to nobody after it was acknowledged, nor without having been pushed', () => {
    const late = told().lease('a', 0).lease('b', 0).push(0, 1, '1').claim('a', 2, 3, '1').ack('a', 4, 5, '1', 'done');
    expect(late.claim('b', 6, 7, '1', 2).complaints()).toEqual(['b got 1 after it was acknowledged']);
    expect(told().lease('a', 0).claim('a', 2, 3, '1').complaints()).toEqual(['a got 1, which nobody pushed']);
  });

  it('is not overtaken by one that was pushed after it', () => {
    const history = told()
      .lease('a', 0)
      .push(0, 1, '1')
      .push(2, 3, '2')
      .claim('a', 4, 5, '2')
      .claim('a', 6, 7, '1')
      .ack('a', 8, 9, '1', 'done')
      .ack('a', 8, 9, '2', 'done');
    expect(history.complaints()).toEqual(['2 was given out before 1, which was pushed before it']);
  });
});

describe('a claim', () => {
  it('is not believed in by two', () => {
    const two = (second: number): string[] =>
      told()
        .lease('a', 0)
        .lease('b', 0, 50)
        .push(0, 1, '1')
        .claim('a', 2, 3, '1')
        .claim('b', second - 1, second, '1', 2)
        .ack('b', 120, 121, '1', 'done')
        .complaints();
    expect(two(90)).toEqual(['b was told at 90.0 that it has claimed 1, while a believed so from 3.0 to 100.0']);
    expect(two(101)).toEqual([]);
  });

  it('is over when another one has been told of', () => {
    const late = told()
      .lease('a', 0)
      .lease('b', 0, 90)
      .push(0, 1, '1')
      .claim('a', 2, 3, '1')
      .claim('b', 104, 105, '1', 2)
      .ack('a', 110, 111, '1', 'done');
    expect(late.complaints()).toEqual(['a acknowledged 1 by a claim that was not the last: b had claimed it since']);
  });
});

describe('a group', () => {
  const two = (): Told => told().lease('a', 0).push(0, 1, 'x:1').push(2, 3, 'y:1', 'x:2');

  it('goes on when what is before is acknowledged, and holds no other one up', () => {
    const right = two()
      .claim('a', 4, 5, 'x:1')
      .claim('a', 6, 7, 'y:1')
      .ack('a', 8, 9, 'x:1', 'done')
      .claim('a', 9, 10, 'x:2')
      .ack('a', 11, 12, 'x:2', 'done')
      .ack('a', 11, 12, 'y:1', 'done');
    expect(groupedComplaints(right.operations, { touchLagMs: 0 })).toEqual([]);
  });

  it('does not go on before', () => {
    const wrong = two()
      .claim('a', 4, 5, 'x:1')
      .claim('a', 6, 7, 'x:2')
      .claim('a', 6, 7, 'y:1')
      .ack('a', 8, 9, 'x:1', 'done')
      .ack('a', 11, 12, 'x:2', 'done')
      .ack('a', 11, 12, 'y:1', 'done');
    expect(groupedComplaints(wrong.operations, { touchLagMs: 0 })).toEqual([
      'order of a group broken: x:2 was claimed before x:1 was acknowledged, which was pushed before it',
    ]);
  });
});
