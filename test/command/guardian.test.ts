/** The guardian alone, as a process that is given orders: one job after the other. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sinceBootMs } from '../../src/command/process/clock.js';
import { groupLives } from '../../src/command/process/group.js';
import type { News, Order } from '../../src/command/process/messages.js';
import { eventually } from '../support/eventually.js';
import { scaled } from '../support/timing.js';
import { LONG_MS } from './run-command.js';

const GUARDIAN = fileURLToPath(new URL('../../dist/command/guardian.js', import.meta.url));
const FOR_LONG = 600_000;

let guardian: ChildProcess;
let heard: News[];
beforeEach(() => {
  guardian = fork(GUARDIAN, { detached: true });
  heard = [];
  guardian.on('message', (news: News) => heard.push(news));
});
afterEach(async () => {
  if (guardian.exitCode !== null) return;
  const exited = once(guardian, 'exit');
  if (guardian.connected) guardian.disconnect();
  await exited;
});

const order = (given: Order): boolean => guardian.send(given);

function bounds(fromNowMs: number): { termAt: number; killAt: number } {
  const termAt = sinceBootMs() + fromNowMs;
  return { termAt, killAt: termAt + 100 };
}

function run(job: number, script: string, endsInMs = FOR_LONG): void {
  const argv = ['sh', '-c', script];
  order({ type: 'run', job, argv, env: {}, bounds: bounds(endsInMs), killAfterMs: 100 });
}

const news = <T extends News['type']>(type: T, nth: number): Promise<Extract<News, { type: T }>> =>
  eventually(`it tells "${type}" for the time ${nth}: ${JSON.stringify(heard)}`, () => {
    return heard.filter((each): each is Extract<News, { type: T }> => each.type === type)[nth - 1];
  });

describe('the guardian', { timeout: LONG_MS }, () => {
  it('obeys no order for a job that is over: the next one runs to its end', async () => {
    run(1, 'exit 0');
    await news('over', 1);
    order({ type: 'bounds', job: 1, bounds: bounds(-1_000) });
    order({ type: 'stop', job: 1, why: 'too late', killAt: 0 });
    run(2, 'sleep 0.2; exit 7');
    order({ type: 'stop', job: 1, why: 'too late', killAt: 0 });
    expect(await news('over', 2)).toEqual({ type: 'over', code: 7, signal: null });
    expect(heard.map(({ type }) => type)).toEqual(['started', 'over', 'started', 'over']);
  });

  it('stops a job at its bounds whatever was ordered late for the one before', async () => {
    run(1, 'exit 0');
    await news('over', 1);
    order({ type: 'stop', job: 1, why: 'too late', killAt: 0 });
    order({ type: 'bounds', job: 1, bounds: bounds(FOR_LONG) });
    run(2, 'trap "" TERM; while :; do sleep 0.05; done', scaled(500));
    order({ type: 'bounds', job: 1, bounds: bounds(FOR_LONG) });
    const { pid } = await news('started', 2);
    expect(await news('over', 2)).toMatchObject({ signal: 'SIGKILL', stopped: 'no heartbeat was answered in time' });
    expect(groupLives(pid)).toBe(false);
  });

  it('starts no job when it gets to it after the bounds', async () => {
    run(1, 'echo ran', -1);
    const stopped = 'no heartbeat was answered in time';
    expect(await news('over', 1)).toEqual({ type: 'over', code: null, signal: null, stopped });
    run(2, 'exit 7');
    expect(await news('over', 2)).toMatchObject({ code: 7 });
    expect(heard.map(({ type }) => type)).toEqual(['over', 'started', 'over']);
  });

  it('stops the next job when the command has died, and ends then', async () => {
    run(1, 'exit 0');
    await news('over', 1);
    order({ type: 'stop', job: 1, why: 'too late', killAt: 0 });
    run(2, 'trap "" TERM; while :; do sleep 0.05; done');
    const { pid } = await news('started', 2);
    const exited = once(guardian, 'exit');
    guardian.disconnect();
    await exited;
    expect(groupLives(pid)).toBe(false);
  });
});
