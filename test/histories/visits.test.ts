/**
 * What is looked for in histories of double barriers: right histories, and one that is wrong for each thing that can
 * be.
 */
import { describe, expect, it } from 'vitest';
import type { LeaseInput, LeaseOutput } from './client-lease.js';
import type { Operation } from './linearizable.js';
import { visitComplaints, type VisitInput, type VisitOutput } from './visits.js';

const TTL_MS = 10_000;

class Told {
  readonly operations: Operation<VisitInput | LeaseInput, VisitOutput | LeaseOutput>[] = [];

  /** Heartbeats that go on until long after what is told here. */
  lease(lease: string, ttlMs = TTL_MS): this {
    for (const begin of [0, 300, 700]) {
      const input = { do: 'lease-lives', lease, ttlMs, ...(begin === 0 && { created: true as const }) } as const;
      this.operations.push({ client: lease, begin, end: begin + 1, input, output: { ok: true } });
    }
    return this;
  }

  end(lease: string, begin: number, end: number): this {
    this.operations.push({ client: lease, begin, end, input: { do: 'lease-left', lease }, output: { ok: true } });
    return this;
  }

  enter(by: string, begin: number, end: number, output?: { in: boolean; token: number }): this {
    this.operations.push({ client: by, begin, end: output ? end : Infinity, input: { do: 'enter', by }, output });
    return this;
  }

  leave(by: string, begin: number, end: number, out?: boolean): this {
    const output = out === undefined ? undefined : { out };
    this.operations.push({ client: by, begin, end: output ? end : Infinity, input: { do: 'leave', by }, output });
    return this;
  }

  complaints(): string[] {
    return visitComplaints(this.operations, 2);
  }
}

const told = (): Told => new Told();
const inside = (token: number): { in: boolean; token: number } => ({ in: true, token });
const coming = (token: number): { in: boolean; token: number } => ({ in: false, token });

describe('members of a double barrier', () => {
  it('come together and leave together, round after round', () => {
    const right = told().lease('a').lease('b').lease('c');
    right.enter('a', 10, 50, inside(1)).enter('b', 20, 45, inside(2)).enter('c', 22, 60, coming(3));
    right.leave('a', 70, 90, false).leave('b', 80, 101, true).leave('a', 91, 105, true);
    right.enter('a', 110, 130, inside(4)).enter('c', 100, 140, inside(3));
    right.leave('a', 150, 200, true).leave('c', 155, 199, true);
    expect(right.complaints()).toEqual([]);
  });

  it('come by requests whose answers were lost, and those count', () => {
    const right = told().lease('a').lease('b').enter('b', 5, 6).enter('a', 10, 50, inside(1));
    expect(right.complaints()).toEqual([]);
  });

  it('are not let in alone', () => {
    const alone = told().lease('a').enter('a', 10, 50, inside(1));
    expect(alone.complaints()).toEqual(['a was let in by 50, with 0 others at most since 10']);
  });

  it('are not let in with somebody who had left, and whose lease lives', () => {
    const late = told().lease('a').lease('b').enter('b', 1, 2, coming(1)).leave('b', 3, 4, true);
    expect(late.enter('a', 10, 50, inside(2)).complaints()).toHaveLength(1);
  });

  it('are not let in with somebody whose lease had ended', () => {
    const late = told().lease('a').lease('b').enter('b', 1, 2, coming(1)).end('b', 3, 4);
    expect(late.enter('a', 10, 50, inside(2)).complaints()).toHaveLength(1);
  });

  it('are not told that all have left while the other one is there', () => {
    const there = told().lease('a').lease('b').enter('a', 10, 50, inside(1)).enter('b', 20, 45, inside(2));
    expect(there.leave('a', 60, 70, true).complaints()).toEqual([
      'a was told at 70 that all have left, though b had not',
    ]);
  });

  it('are told so when the other one may have left, or died, or may not have been in the round', () => {
    const both = (): Told => told().lease('a').lease('b').enter('a', 10, 50, inside(1)).enter('b', 20, 45, inside(2));
    expect(both().leave('b', 65, 0).leave('a', 60, 70, true).complaints()).toEqual([]);
    const died = told().lease('a').lease('b', 30).enter('a', 10, 50, inside(1)).enter('b', 20, 45, inside(2));
    expect(died.leave('a', 60, 170, true).complaints()).toEqual([]);
    const another = both().lease('c').enter('c', 30, 40, coming(3)).leave('c', 41, 43, true);
    expect(another.leave('a', 60, 70, true).complaints()).toEqual([]);
  });

  it('are no more than there are places', () => {
    const three = told().lease('a').lease('b').lease('c').enter('a', 10, 50, inside(1)).enter('b', 20, 45, inside(2));
    expect(three.enter('c', 30, 60, inside(3)).complaints()).toEqual(['c, a, b were in at 60, more than 2']);
  });

  it('keep the place that they did not leave', () => {
    const moved = told().lease('a').enter('a', 10, 50, coming(1)).enter('a', 60, 70, coming(2));
    expect(moved.complaints()).toEqual(['a has the place 2 at 70 and had 1, which it did not leave']);
  });

  it('may lose it to a request to leave that comes late', () => {
    const late = told().lease('a').enter('a', 10, 50, coming(1)).leave('a', 51, 0).leave('a', 52, 53, true);
    expect(late.enter('a', 60, 70, coming(2)).enter('a', 80, 90, coming(3)).complaints()).toEqual([]);
  });
});
