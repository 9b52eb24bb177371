/**
 * What is looked for in histories of locks and their like: a right history, and one that is wrong for each thing that
 * can be.
 */
import { describe, expect, it } from 'vitest';
import {
  AFTERWARDS,
  holdComplaints,
  type HoldRules,
  type LineInput,
  type LineOperation,
  type LineOutput,
} from './holds.js';
import type { Circumstances } from './workload.js';

const TTL_MS = 100;

/** What one client did with one lease: times, what it asked, what it was told. */
class Told {
  readonly operations: LineOperation[] = [];

  add(client: string, begin: number, end: number, input: LineInput, output?: LineOutput): this {
    this.operations.push({ client, begin, end, input, output });
    return this;
  }

  /** A lease of the client's own name, that is heartbeated at these times. */
  lease(client: string, ...heartbeats: number[]): this {
    for (const [i, at] of heartbeats.entries())
      this.add(
        client,
        at,
        at + 1,
        { do: 'lease-lives', lease: client, ttlMs: TTL_MS, ...(i === 0 && { created: true }) },
        { ok: true },
      );
    return this;
  }

  acquire(
    client: string,
    begin: number,
    end: number,
    token: number,
    { members, ...shape }: { reads?: true; permits?: number; members?: string[] } = {},
  ): this {
    const output = { token, ...(members && { members }) };
    return this.add(client, begin, end, { do: 'acquire', by: `${client}#1`, ...shape }, output);
  }

  release(client: string, begin: number, end: number): this {
    return this.add(client, begin, end, { do: 'release', by: `${client}#1` }, { done: true });
  }

  show(begin: number, end: number, ...tokens: number[]): this {
    return this.add('looker', begin, end, { do: 'show' }, { tokens });
  }

  complaints(rules: number | HoldRules = 1, circumstances: Circumstances = { touchLagMs: 0 }): string[] {
    return holdComplaints(this.operations, typeof rules === 'number' ? { limit: rules } : rules, circumstances);
  }
}

const told = (): Told => new Told();
const NOT_LINEARIZABLE: unknown = expect.stringContaining('not linearizable');

describe('what a client may believe', () => {
  it('is true of a lock that goes from hand to hand, by release and by the end of a lease', () => {
    const right = told()
      .lease('a', 0, 40)
      .lease('b', 0, 40, 80, 120)
      .lease('c', 100, 140, 180, 220, 260)
      .acquire('a', 2, 5, 10)
      .acquire('b', 3, 30, 11)
      .release('a', 20, 25)
      .show(32, 33, 11)
      .acquire('c', 101, 230, 15);
    expect(right.complaints()).toEqual([]);
  });

  it('is not what another client believes at the same time', () => {
    const early = told().lease('a', 0).lease('b', 0, 50).acquire('a', 2, 5, 10).acquire('b', 60, 99, 11);
    expect(early.complaints()).toEqual([expect.stringContaining('b#1 was told at 99.0 that it holds (11)')]);
    // The same, when a has known for long that its time is over.
    const late = told().lease('a', 0).lease('b', 0, 50).acquire('a', 2, 5, 10).acquire('b', 60, 101, 11);
    expect(late.complaints()).toEqual([]);
    // Or was told of its end.
    const lost = told().lease('a', 0).lease('b', 0, 50).acquire('a', 2, 5, 10).acquire('b', 60, 99, 11);
    expect(lost.add('a', 90, 90, { do: 'lease-lost', lease: 'a' }, { ok: true }).complaints()).toEqual([]);
    const left = told().lease('a', 0).lease('b', 0, 50).acquire('a', 2, 5, 10).acquire('b', 60, 99, 11);
    expect(left.add('a', 70, 90, { do: 'lease-left', lease: 'a' }, { ok: true }).complaints()).toEqual([]);
  });

  it('reaches as far as the last heartbeat that was answered, and not over a gap between them', () => {
    const kept = told().lease('a', 0, 90).lease('b', 100, 150).acquire('a', 2, 5, 10).acquire('b', 105, 180, 11);
    expect(kept.complaints()[0]).toContain('others believed it of themselves: a#1 (10) from 5.0 to 190.0');
    const gap = told().lease('a', 0, 110).lease('b', 100).acquire('a', 2, 5, 10).acquire('b', 101, 105, 11);
    expect(gap.complaints().filter((complaint) => complaint.includes('believed'))).toEqual([]);
  });

  it('does not count on a heartbeat that may have died with a server that kept it to itself', () => {
    const history = told().lease('a', 0, 90).lease('b', 120).acquire('a', 2, 5, 10).acquire('b', 121, 125, 11);
    expect(history.complaints()[0]).toContain('believed it of themselves');
    expect(history.complaints(1, { touchLagMs: 20 })).toEqual([]);
    // A later heartbeat shows that the time of the first is over.
    history.lease('a', 112);
    expect(history.complaints(1, { touchLagMs: 20 })[0]).toContain('believed it of themselves');
  });

  it('is shared by readers, and not with a writer', () => {
    const two = (reads?: true): string[] =>
      told()
        .lease('a', 0, 40)
        .lease('b', 0, 40)
        .acquire('a', 2, 5, 10, { reads: true })
        .acquire('b', 6, 9, 11, reads && { reads })
        .complaints();
    expect(two(true)).toEqual([]);
    expect(two()[0]).toContain('b#1 was told at 9.0 that it holds');
  });

  it('is shared by a writer who became a reader, with readers, and with no writer in between', () => {
    const read = { do: 'acquire', by: 'a#1', reads: true, downgrades: true } as const;
    const history = (): Told => told().lease('a', 0, 40).lease('b', 0, 40).acquire('a', 2, 5, 10);
    const asked = (token?: number): Told =>
      history().add('a', 20, token === undefined ? Infinity : 25, read, token === undefined ? undefined : { token });
    const beside = (other: Told, begin: number, reads?: true): string[] =>
      other
        .acquire('b', 6, begin, 11, reads && { reads })
        .release('a', 60, 65)
        .complaints();
    expect(beside(asked(10), 30, true)).toEqual([]);
    expect(beside(asked(), 30, true)).toEqual([]);
    // As a writer it was alone until it asked.
    expect(beside(asked(10), 15, true)).toEqual([expect.stringContaining('b#1 was told at 15.0'), NOT_LINEARIZABLE]);
    expect(beside(history(), 30, true)).toEqual([expect.stringContaining('b#1 was told at 30.0'), NOT_LINEARIZABLE]);
    // And it was never without the hold, told of it or not.
    expect(beside(asked(10), 30)).toEqual([expect.stringContaining('b#1 was told at 30.0'), NOT_LINEARIZABLE]);
    expect(beside(asked(), 30)).toEqual([expect.stringContaining('b#1 was told at 30.0'), NOT_LINEARIZABLE]);
    expect(asked(12).complaints()).toEqual(['a#1 was given several tokens: 10, 12', NOT_LINEARIZABLE]);
    expect(history().add('a', 20, 25, read, { refused: true }).complaints()).toEqual([NOT_LINEARIZABLE]);
  });

  it('is no more permits than there are', () => {
    const three = told()
      .lease('a', 0, 40)
      .lease('b', 0, 40)
      .lease('c', 0, 40)
      .acquire('a', 2, 5, 10, { permits: 1 })
      .acquire('b', 2, 5, 11, { permits: 2 });
    expect(three.complaints(3)).toEqual([]);
    expect(three.acquire('c', 6, 7, 12, { permits: 1 }).complaints(3)[0]).toContain('c#1 was told at 7.0');
  });
});

describe('a member of a pool', () => {
  it('is given to one at a time, and not to somebody else who believes to hold it', () => {
    const of = (members: string[], end: number): Told =>
      told()
        .lease('a', 0, 40)
        .lease('b', 0, 40)
        .acquire('a', 2, 5, 10, { members: ['0'] })
        .release('a', end, 60)
        .acquire('b', 6, 30, 11, { members });
    expect(of(['1'], 50).complaints(2)).toEqual([]);
    expect(of(['0'], 20).complaints(2)).toEqual([]);
    expect(of(['0'], 50).complaints(2)).toEqual(['b#1 was given member 0, which a#1 believed to hold']);
  });
});

describe('a member of a pool that was lost', () => {
  const lost = (until: number): Told =>
    told()
      .lease('a', 0, 40)
      .acquire('a', 2, 5, 10, { members: ['0'] })
      .lease('b', 150)
      .acquire('b', 151, until, 11, { members: ['0'] });

  it('is given to nobody before its quarantine has passed', () => {
    // The lease of a stands until 140.
    const rules = { limit: 2, quarantineMs: 50 };
    expect(lost(190).complaints(rules)).toEqual([]);
    expect(lost(189).complaints(rules)).toEqual(['b#1 was given member 0 early, which a#1 had lost']);
    expect(lost(189).complaints(2)).toEqual([]);
  });

  it('was not lost when its client asked to release it, or to end its lease', () => {
    const rules = { limit: 2, quarantineMs: 50 };
    expect(lost(189).release('a', 20, 25).complaints(rules)).toEqual([]);
    const left = lost(189).add('a', 45, 50, { do: 'lease-left', lease: 'a' }, { ok: true });
    expect(left.complaints(rules)).toEqual([]);
  });
});

describe('a token', () => {
  it('is not lower than one that was told before it was asked for', () => {
    const history = (second: number): string[] =>
      told()
        .lease('a', 0, 40)
        .lease('b', 0, 40)
        .acquire('a', 2, 5, 10)
        .release('a', 6, 7)
        .acquire('b', 8, 9, second)
        .complaints();
    expect(history(11)).toEqual([]);
    expect(history(9)[0]).toBe('b#1 was given 9 after a#1 had been told of 10');
    expect(history(10)[0]).toBe('the token 10 was given to a#1 and to b#1');
  });

  it('stays the same for one hold', () => {
    const twice = told().lease('a', 0, 40).acquire('a', 2, 5, 10).acquire('a', 6, 7, 12);
    expect(twice.complaints()[0]).toBe('a#1 was given several tokens: 10, 12');
  });
});

describe('who looks', () => {
  it('sees who held all the time', () => {
    const history = told().lease('a', 0, 40).acquire('a', 2, 5, 10);
    expect(history.show(6, 7).complaints()).toEqual(['a#1 held (10) from 6.0 to 7.0 and was not shown']);
  });

  it('sees nobody who does not hold', () => {
    const history = told().lease('a', 0, 40).acquire('a', 2, 5, 10).release('a', 10, 12);
    expect(history.show(9, 13, 10).complaints()).toEqual([]);
    expect(history.show(14, 15, 10).complaints()[0]).toContain('not linearizable');
  });
});

describe('who is refused in an election', () => {
  const election: HoldRules = { limit: 1, leadsUntold: true };
  const refused = (...tokens: [at: number, token: number][]): Told =>
    tokens.reduce(
      (seen, [at, token]) => seen.show(at, at + 1, token),
      told().lease('a', 0, 40).add('a', 2, 20, { do: 'acquire', by: 'a#1', waitMs: 10 }, { refused: true }),
    );

  it('may have led until then without having been told, and been seen to', () => {
    expect(refused([10, 7]).complaints(election)).toEqual([]);
    expect(refused([10, 7]).complaints(1)).toEqual([expect.stringContaining('not linearizable')]);
  });

  it('leads no more after that, and not twice', () => {
    expect(refused([30, 7]).complaints(election)).toEqual([expect.stringContaining('not linearizable')]);
    expect(refused([10, 7], [30, 7]).complaints(election)).toEqual([expect.stringContaining('not linearizable')]);
    expect(refused([10, 7], [14, 8]).complaints(election)).toEqual([expect.stringContaining('not linearizable')]);
  });
});

describe('a request that its client gave up', () => {
  const stopped = (): Told =>
    told().lease('a', 0, 40, 80).lease('b', 0, 40, 80).add('a', 2, Infinity, { do: 'acquire', by: 'a#1' });

  it('may be answered late, to nobody, and takes back what it got', () => {
    expect(stopped().show(20, 21, 10).acquire('b', 22, 30, 12).complaints()).toEqual([]);
  });

  it('takes nothing back that another one was told of', () => {
    const adopted = stopped().acquire('a', 20, 21, 10).show(30, 31, 10).acquire('b', 40, 41, 12);
    expect(adopted.complaints()).toHaveLength(2);
  });

  it('gets nothing after its lease has ended', () => {
    const left = stopped().add('a', 41, 42, { do: 'lease-left', lease: 'a' }, { ok: true });
    expect(left.show(43, 44, 10).complaints()[0]).toContain('not linearizable');
  });
});

describe('a place that is kept', () => {
  it('comes to hold when the one in front has left', () => {
    const history = told()
      .lease('a', 0, 40)
      .lease('b', 0, 40)
      .acquire('a', 2, 5, 10)
      .add('b', 3, 8, { do: 'acquire', by: 'b#1' }, { kept: true })
      .release('a', 10, 12);
    expect(history.show(14, 15, 11).complaints()).toEqual([]);
    expect(history.show(16, 17, 12).complaints()[0]).toContain('not linearizable');
  });
});

describe('who waits', () => {
  const wait = { do: 'acquire', by: 'b#1', waitMs: 8_000 } as const;
  const calm: Circumstances = { touchLagMs: 0, disturbed: [] };
  const history = (released: number): Told =>
    told()
      .lease('a', 0, 60, 120)
      .lease('b', 0, 60, 120)
      .acquire('a', 2, 5, 10)
      .release('a', released, released + 5)
      .add('b', 20, 8_020, wait, { refused: true });

  it('does so in vain only while somebody can hold', () => {
    expect(history(90).complaints(1, calm)).toEqual([
      'b waited as b#1 from 20.0 to 8020.0 and was refused, though nobody can have held from 1020.0 to 8020.0',
    ]);
    expect(history(6_000).complaints(1, calm)).toEqual([]);
    expect(history(90).add('c', 1_500, Infinity, { do: 'acquire', by: 'c#1' }).complaints(1, calm)).toEqual([]);
    // Somebody who waits too, and somebody who was granted only afterwards, does not hold.
    const others = history(90)
      .lease('d', 0)
      .add('d', 30, 7_030, { do: 'acquire', by: 'd#1', waitMs: 7_000 }, { refused: true })
      .lease('e', 8_000)
      .add('e', 40, 8_050, { do: 'acquire', by: 'e#1', waitMs: 9_000 }, { token: 40 });
    expect(others.complaints(1, calm)).toHaveLength(2);
  });

  it('may do so while something is disturbed, or where nobody knows whether it was', () => {
    expect(history(90).complaints(1, { ...calm, disturbed: [{ begin: 2_000, end: 6_000 }] })).toEqual([]);
    expect(history(90).complaints()).toEqual([]);
  });
});

describe('a release', () => {
  it('that was done says that it held, unless nobody knows what came of an earlier one', () => {
    const again = (): Told => told().lease('a', 0).lease('b', 0).acquire('a', 2, 5, 10);
    const passed = (history: Told): Told => history.acquire('b', 30, 35, 20).release('b', 40, 45).release('a', 50, 55);
    expect(passed(again().release('a', 20, 25)).complaints()).toHaveLength(1);
    const unknown = again().add('a', 20, Infinity, { do: 'release', by: 'a#1' });
    expect(passed(unknown).complaints()).toEqual([]);
  });
});

describe('in the end', () => {
  it('somebody is granted', () => {
    const last = { do: 'acquire', by: 'z#last' } as const;
    const waiting = told().lease('a', 0).acquire('a', 2, 5, 10).add(AFTERWARDS, 500, 900, last, { refused: true });
    expect(waiting.complaints()).toEqual(['nobody is granted any more, although all others have gone']);
    expect(waiting.add(AFTERWARDS, 900, 950, last, { token: 20 }).complaints()).toEqual([]);
  });
});
