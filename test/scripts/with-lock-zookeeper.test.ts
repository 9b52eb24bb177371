/** `scripts/with-lock.sh` at a gateway that answers while its ZooKeeper hangs: nothing can be proven any more. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { eventually } from '../support/eventually.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper, type TestZooKeeper } from '../support/start-zookeeper.js';
import { LONG_MS, pidOf, runs, runWithLock, SHORTEST_TTL, STUBBORN } from './with-lock-run.js';

const TTL_MS = 10_000;

let zookeeper: TestZooKeeper;
let replica: Replica;
beforeAll(async () => {
  zookeeper = await startZooKeeper();
  replica = await startReplica({ zookeeper: zookeeper.connectString, root: freshRoot() });
}, LONG_MS);
afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await zookeeper[Symbol.asyncDispose]();
});

/** While the server stands still. */
async function hanging(work: () => Promise<void>): Promise<void> {
  zookeeper.pause();
  try {
    await work();
  } finally {
    zookeeper.resume();
  }
}

const isFree = async (name: string): Promise<boolean> =>
  (await replica.call('GET', `/v1/locks/${name}`)).status === 404 || (await replica.showLock(name)).holderCount === 0;

it('kills the command before the lease can end, and exits with 76', { timeout: LONG_MS * 2 }, async () => {
  const run = runWithLock([...SHORTEST_TTL, 'held', ...STUBBORN], { url: replica.url });
  const pid = await pidOf(run);
  await hanging(async () => {
    // What was answered last was sent before the server stood still.
    await eventually('the command is dead', () => !runs(pid), { withinMs: TTL_MS });
    expect(await run.code()).toBe(76);
  });
  expect(run.stderr).toContain('no heartbeat was answered for');
  await eventually('the lock is free', () => isFree('held'), { withinMs: LONG_MS });
});

it(
  'exits with 75, and not as if there were no gateway, when the lock cannot be asked for',
  async () => {
    await hanging(async () => {
      const run = runWithLock([...SHORTEST_TTL, '-w', '0', 'asked-for', 'echo', 'ran'], { url: replica.url });
      expect(await run.code()).toBe(75);
      expect(run.stderr).toContain('the last answer was 503');
      expect(run.stdout).toBe('');
    });
    // What stood before the server may still be done; it ends with its lease.
    await eventually('the lock is free', () => isFree('asked-for'), { withinMs: LONG_MS });
  },
  LONG_MS * 2,
);
