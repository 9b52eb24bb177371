/** What is looked for in histories of runs: a right history, and one that is wrong for each thing that can be. */
import { describe, expect, it } from 'vitest';
import { AFTERWARDS } from './holds.js';
import { runComplaints, type RunsInput, type RunsOperation, type RunsOutput } from './runs.js';
import type { RunOutcome, RunState } from './runs-model.js';

const TTL_MS = 100;
const MAX_ATTEMPTS = 2;

class Told {
  readonly operations: RunsOperation[] = [];

  add(client: string, begin: number, end: number, input: RunsInput, output?: RunsOutput): this {
    this.operations.push({ client, begin, end: output === undefined ? Infinity : end, input, output });
    return this;
  }

  /** A lease of the client's own name, that is heartbeated at these times. */
  lease(client: string, ...heartbeats: number[]): this {
    for (const [i, at] of heartbeats.entries()) {
      const input = {
        do: 'lease-lives',
        lease: client,
        ttlMs: TTL_MS,
        ...(i === 0 && { created: true as const }),
      } as const;
      this.add(client, at, at + 1, input, { ok: true });
    }
    return this;
  }

  left(client: string, begin: number, end: number): this {
    return this.add(client, begin, end, { do: 'lease-left', lease: client }, { ok: true });
  }

  start(client: string, begin: number, end: number, told: [attempt: number, token: number] | [number, RunState]): this {
    const [attempt, what] = told;
    const output: RunsOutput =
      typeof what === 'number' ? { started: true, attempt, token: what } : { started: false, attempt, state: what };
    return this.add(client, begin, end, { do: 'start', by: `${client}#1`, occurrence: 'o' }, output);
  }

  finish(client: string, begin: number, token: number, outcome: RunOutcome, output?: RunsOutput): this {
    return this.add(
      client,
      begin,
      begin + 2,
      { do: 'finish', by: `${client}#1`, occurrence: 'o', token, outcome },
      output,
    );
  }

  look(begin: number, state: RunState, attempt: number, token = attempt + 9): this {
    const occurrences = [{ occurrence: 'o', state, attempt, token }];
    return this.add('looker', begin, begin + 1, { do: 'look' }, { occurrences });
  }

  complaints(): string[] {
    return runComplaints(this.operations, MAX_ATTEMPTS, { touchLagMs: 0 });
  }
}

const told = (): Told => new Told();
const two = (): Told => told().lease('a', 0, 40, 80).lease('b', 0, 40, 80).start('a', 2, 5, [1, 10]);

describe('a run', () => {
  it('goes from an attempt that failed, or was lost, to the next, and is done', () => {
    const right = two()
      .start('b', 6, 8, [1, 'running'])
      .finish('a', 10, 10, 'failed', { state: 'open', attempt: 1 })
      .look(14, 'open', 1)
      .start('b', 15, 18, [2, 11])
      .finish('a', 20, 10, 'failed', { state: 'running', attempt: 2 })
      .finish('a', 23, 10, 'done', { refused: true })
      .finish('b', 30, 11, 'done', { state: 'done', attempt: 2 })
      .start('a', 35, 36, [2, 'done'])
      .look(37, 'done', 2);
    expect(right.complaints()).toEqual([]);
    const lost = told()
      .lease('a', 0)
      .lease('b', 0)
      .start('a', 2, 5, [1, 10])
      .left('a', 20, 25)
      .start('b', 10, 24, [2, 11])
      .left('b', 30, 35)
      .look(40, 'failed', 2);
    expect(lost.complaints()).toEqual([]);
  });

  it('has no two attempts at once', () => {
    const found = two().start('b', 10, 15, [2, 11]).complaints();
    expect(found[0]).toContain('two attempts at once: b#1 was told at 15.0');
    // As the model has it too, where no clock tells: nothing has ended the first one, and its lease lives.
    const alive = two().start('b', 10, 15, [2, 11]).lease('a', 200).complaints();
    expect(alive.length).toBeGreaterThan(1);
  });

  it('is not started once more after it was done, nor more often than it may be', () => {
    const done = two().finish('a', 10, 10, 'done', { state: 'done', attempt: 1 });
    expect(done.complaints()).toEqual([]);
    expect(done.start('b', 20, 25, [2, 11]).complaints()).toHaveLength(1);
    const failed = two()
      .finish('a', 10, 10, 'failed', { state: 'open', attempt: 1 })
      .start('b', 13, 15, [2, 11])
      .finish('b', 20, 11, 'failed', { state: 'failed', attempt: 2 });
    expect(failed.complaints()).toEqual([]);
    expect(failed.start('a', 30, 31, [3, 12]).complaints()).toHaveLength(1);
  });

  it('is not done by an attempt that is over', () => {
    const late = two()
      .finish('a', 10, 10, 'failed', { state: 'open', attempt: 1 })
      .start('b', 15, 18, [2, 11])
      .finish('a', 20, 10, 'done', { state: 'done', attempt: 2 });
    expect(late.complaints()).toHaveLength(1);
  });

  it('may have been done by a finish that was not answered, or not', () => {
    const unknown = (): Told => two().finish('a', 10, 10, 'done');
    expect(unknown().look(20, 'done', 1).complaints()).toEqual([]);
    expect(unknown().look(20, 'running', 1).complaints()).toEqual([]);
    expect(unknown().look(20, 'done', 1).look(30, 'running', 1).complaints()).toHaveLength(1);
  });

  it('gives no token twice, and none that is not higher than those before', () => {
    const another = (token: number): string[] =>
      two()
        .add('b', 10, 12, { do: 'start', by: 'b#1', occurrence: 'p' }, { started: true, attempt: 1, token })
        .complaints();
    expect(another(11)).toEqual([]);
    for (const token of [9, 10])
      expect(another(token)[0]).toContain(`b#1 was given ${token}, and a#1 had been told of 10`);
  });

  it('is not shown otherwise than it is, and goes on in the end', () => {
    expect(two().look(10, 'running', 1).complaints()).toEqual([]);
    expect(two().look(10, 'running', 1, 11).complaints()).toHaveLength(1);
    expect(two().look(10, 'open', 1).lease('a', 200).complaints()).toHaveLength(1);
    const stuck = two().add(AFTERWARDS, 300, 310, { do: 'start', by: 'z#1', occurrence: 'last' });
    expect(stuck.complaints()).toEqual(['nobody is started any more, although all others have gone']);
  });
});
