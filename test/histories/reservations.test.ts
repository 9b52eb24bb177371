/** What is looked for in histories of reservations: a right one, and one that is wrong for each thing that can be. */
import { describe, expect, it } from 'vitest';
import type { LineInput, LineOperation, LineOutput } from './holds.js';
import { reservationComplaints } from './reservations.js';
import type { Circumstances } from './workload.js';

class Told {
  readonly operations: LineOperation[] = [];

  add(client: string, begin: number, end: number, input: LineInput, output?: LineOutput): this {
    this.operations.push({ client, begin, end: output === undefined ? Infinity : end, input, output });
    return this;
  }

  reserve(by: string, begin: number, end: number, token: number, until: number): this {
    return this.add(by, begin, end, { do: 'acquire', by }, { token }).until(by, end - 1, until);
  }

  until(by: string, told: number, until: number): this {
    return this.add(by, told, told, { do: 'reserved', lease: by, until }, { ok: true });
  }

  extend(by: string, begin: number, token: number, done: boolean): this {
    return this.add(by, begin, begin + 2, { do: 'check', token }, { done });
  }

  release(by: string, begin: number, done = true): this {
    return this.add(by, begin, begin + 2, { do: 'release', by }, { done });
  }

  show(begin: number, ...tokens: number[]): this {
    return this.add('looker', begin, begin + 1, { do: 'show' }, { tokens });
  }

  complaints(circumstances: Circumstances = { touchLagMs: 0 }): string[] {
    return reservationComplaints(this.operations, circumstances);
  }
}

const told = (): Told => new Told();

describe('a reservation', () => {
  it('goes to the next one by its end and by its token, and is extended before', () => {
    const right = told()
      .reserve('a', 0, 5, 10, 100)
      .extend('a', 50, 10, true)
      .until('a', 51, 200)
      .show(150, 10)
      .reserve('b', 60, 205, 11, 400)
      .release('b', 210)
      .reserve('c', 215, 220, 12, 300)
      .release('c', 301, false);
    expect(right.complaints()).toEqual([]);
  });

  it('excludes all others until its time, and its token until it is released', () => {
    const early = told().reserve('a', 0, 5, 10, 100).reserve('b', 20, 90, 11, 200).complaints();
    expect(early[0]).toContain('b was told at 90.0 that it holds (11), while others believed it of themselves: a (10)');
    const extended = told()
      .reserve('a', 0, 5, 10, 100)
      .extend('a', 50, 10, true)
      .until('a', 51, 200)
      .reserve('b', 60, 150, 11, 300);
    expect(extended.complaints()[0]).toContain('from 5.0 to 200.0');
    expect(told().reserve('a', 0, 5, 10, 100).show(50).complaints()[0]).toContain('was not shown');
  });

  it('has not ended before its time, where its client is told so', () => {
    expect(told().reserve('a', 0, 5, 10, 100).extend('a', 101, 10, false).complaints()).toEqual([]);
    expect(told().reserve('a', 0, 5, 10, 100).extend('a', 50, 10, false).complaints()).toHaveLength(1);
    expect(told().reserve('a', 0, 5, 10, 100).release('a', 50, false).complaints()).toHaveLength(1);
  });

  it('is not shown long after its time, unless something was disturbed', () => {
    const late = told().reserve('a', 0, 5, 10, 100).show(60_000, 10);
    expect(late.complaints({ touchLagMs: 0, disturbed: [] })[0]).toContain('a was reserved (10) until 100.0');
    expect(late.complaints({ touchLagMs: 0, disturbed: [{ begin: 50_000, end: 61_000 }] })).toEqual([]);
    expect(late.until('a', 90, 59_000).complaints({ touchLagMs: 0, disturbed: [] })).toEqual([]);
  });

  it('of which nobody was told may be shown or not', () => {
    expect(told().reserve('a', 0, 5, 10, 100).release('a', 20).show(50, 11).complaints()).toEqual([]);
  });
});
