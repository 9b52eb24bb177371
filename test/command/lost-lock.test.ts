/**
 * `postern lock` when the lock may be lost: the job is dead before the heir is granted, whatever has happened to the
 * command. Who is granted next is told by another replica; whether a process of the job still runs, by the system.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { groupLives } from '../../src/command/process/group.js';
import { eventually } from '../support/eventually.js';
import { makeApiKeys } from '../support/http/api-keys.js';
import { rounds } from '../support/scene.js';
import { standStill } from '../support/stand-still.js';
import { spawnReplica, startPair, startReplica, type Pair } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../support/start-zookeeper.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { childrenOf, isIdle, LONG_MS, runCommand, runs, STUBBORN, type Run } from './run-command.js';

const TTL = ['--ttl', '3s'];
/** Two processes that end by SIGKILL only: the one that is named, and one that it has started. */
const FAMILY = [
  'sh',
  '-c',
  'trap "" TERM; (while :; do sleep 0.05; done) & echo "pid $$"; while :; do sleep 0.05; done',
];

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

interface Held {
  run: Run;
  /** The process group of the job. */
  group: number;
  fencingToken: number;
}

async function hold(name: string, url = pair.a.url): Promise<Held> {
  const run = runCommand(['lock', name, ...TTL, '--json', '--', ...FAMILY], { url });
  const group = await run.job();
  // A job may have printed something before the guardian has told of it.
  const [guardian] = childrenOf(run.pid);
  await eventually('the guardian has told of the job', () => isIdle(guardian as number));
  const fencingToken = Number(/"fencingToken":(\d+)/.exec(run.stderr)?.[1]);
  return { run, group, fencingToken };
}

/** Waits in line behind it; fails if anything of the job runs at the moment at which the heir is granted. */
async function inherit(name: string, { group, fencingToken }: Held, when: () => unknown): Promise<void> {
  const lease = await pair.b.createLease({ ttlMs: 4_000 });
  const body = { waitMs: 30_000 };
  const granted = pair.b
    .expect(200, 'POST', `/v1/locks/${name}/acquire`, { ...lease, body })
    .then((grant: { fencingToken: number }) => ({ grant, survived: groupLives(group) }));
  await pair.b.untilWaiting(name, 1);
  await when();
  const { grant, survived } = await granted;
  expect(survived, 'the job runs although another one holds the lock').toBe(false);
  expect(grant.fencingToken).toBeGreaterThan(fencingToken);
  await pair.b.endLease(lease);
}

describe('postern lock, when the lock may be lost', { timeout: LONG_MS * 2 }, () => {
  it(
    'kills all of the job before the heir is granted, when nothing comes through any more',
    { timeout: LONG_MS * rounds(10) },
    async () => {
      const round = async (index: number): Promise<void> => {
        const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
        try {
          const held = await hold(`cut-${index}`, `http://${proxy.connectString}`);
          await inherit(`cut-${index}`, held, () => proxy.suspend());
          expect(await held.run.code()).toBe(76);
          expect(held.run.stderr).toContain('no heartbeat');
        } finally {
          await proxy.stop();
        }
      };
      const all = Array.from({ length: rounds(10) }, (_, index) => index);
      for (let first = 0; first < all.length; first += 5) await Promise.all(all.slice(first, first + 5).map(round));
    },
  );

  it.each(['killed', 'stopped'])('kills the job before the heir is granted when its replica is %s', async (how) => {
    await using replica = await spawnReplica({ root: pair.root });
    const held = await hold(`replica-${how}`, replica.url);
    await inherit(`replica-${how}`, held, () => (how === 'killed' ? replica.kill() : replica.pause()));
    expect(await held.run.code()).toBe(76);
    expect(held.run.stderr).toContain('no heartbeat');
  });

  it('says what the last heartbeat was refused for', async () => {
    await using keys = await makeApiKeys({ cron: { default: ['read', 'use'] }, other: { default: ['read'] } });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const run = runCommand(['lock', 'refused', ...TTL, '--', ...STUBBORN], {
      url: replica.url,
      settings: { POSTERN_API_KEY: keys.as('cron', replica.url).key },
    });
    await run.job();
    await keys.leave({ other: { default: ['read'] } });
    expect(await run.code()).toBe(76);
    expect(run.stderr).toMatch(/the job was stopped: .*the last one was refused: This API key is not known here/);
  });

  it('ends the job when the command is killed', async () => {
    const held = await hold('command-killed');
    await inherit('command-killed', held, () => held.run.child.kill('SIGKILL'));
    await eventually('the guardian has gone', () => !groupLives(held.group));
  });

  it('gives a job whose command is killed the time to end by itself', async () => {
    const job = ['sh', '-c', 'trap "echo tidied; exit 0" TERM; echo "pid $$"; while :; do sleep 0.05; done'];
    const run = runCommand(['lock', 'killed-politely', ...TTL, '--', ...job], { url: pair.a.url });
    const pid = await run.job();
    run.child.kill('SIGKILL');
    await run.untilSays(/tidied/);
    await eventually('the job has ended', () => !runs(pid));
  });

  it('ends the job before the heir is granted when the command is stopped, and exits with 76 when it goes on', async () => {
    const held = await hold('command-stopped');
    await inherit('command-stopped', held, () => held.run.child.kill('SIGSTOP'));
    held.run.child.kill('SIGCONT');
    expect(await held.run.code()).toBe(76);
  });

  it('goes on when the command was stopped for a moment only', async () => {
    const run = runCommand(['lock', 'moment', ...TTL, '--', 'sh', '-c', 'echo "pid $$"; sleep 5; echo done'], {
      url: pair.a.url,
    });
    await run.job();
    run.child.kill('SIGSTOP');
    setTimeout(() => run.child.kill('SIGCONT'), 500);
    expect(await run.code()).toBe(0);
    expect(run.stdout).toContain('done');
  });

  it('kills the job and exits with 76 when the guardian is killed', async () => {
    const held = await hold('guardian-killed');
    const [guardian] = childrenOf(held.run.pid);
    process.kill(guardian as number, 'SIGKILL');
    expect(await held.run.code()).toBe(76);
    expect(held.run.stderr).toContain('the guardian has died');
    await eventually('the job is dead', () => !groupLives(held.group));
  });

  it('kills the job before the heir is granted when the guardian stands still, and then nothing comes through', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    const held = await hold('guardian-stopped', `http://${proxy.connectString}`);
    const [guardian] = childrenOf(held.run.pid);
    standStill(guardian as number);
    await inherit('guardian-stopped', held, () => proxy.suspend());
    expect(await held.run.code()).toBe(76);
    expect(runs(guardian as number)).toBe(false);
    await proxy.stop();
  });

  it('ends, and begins no job, when the guardian stands still before it has started it, and then nothing comes through', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    const lease = await pair.b.createLease({ ttlMs: 60_000 });
    await pair.b.acquire('not-started', lease);
    const run = runCommand(['lock', 'not-started', ...TTL, '--json', '--', 'echo', 'ran'], {
      url: `http://${proxy.connectString}`,
    });
    await pair.b.untilWaiting('not-started', 1);
    const [guardian] = await eventually('there is a guardian', () => childrenOf(run.pid));
    standStill(guardian as number);
    await pair.b.endLease(lease);
    await run.untilSays(/"acquired"/);
    proxy.suspend();
    await eventually('it has ended', () => run.child.exitCode !== null, { withinMs: LONG_MS });
    process.kill(guardian as number, 'SIGCONT');
    expect(await run.code()).toBe(76);
    expect(run.stdout).toBe('');
    await eventually('the guardian has ended', () => !runs(guardian as number));
    await proxy.stop();
  });

  it('kills the job before its lock is broken when the grace is as long as its TTL, and nothing comes through', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
    const held = await hold('revoked', `http://${proxy.connectString}`);
    await inherit('revoked', held, async () => {
      proxy.suspend();
      await pair.b.expect(200, 'POST', '/v1/locks/revoked/revoke', { body: { graceMs: 3_000 } });
    });
    expect(await held.run.code()).toBe(76);
    await proxy.stop();
  });

  it('kills the job when the gateway is there and its ZooKeeper hangs, and every subcommand says that it is', async () => {
    await using zookeeper = await startZooKeeper();
    await using replica = await startReplica({ zookeeper: zookeeper.connectString, root: freshRoot() });
    const run = runCommand(['lock', 'held', ...TTL, '--', ...STUBBORN], { url: replica.url });
    const pid = await run.job();
    zookeeper.pause();
    try {
      expect(await run.code()).toBe(76);
      expect(runs(pid)).toBe(false);
      const other = runCommand(['lock', 'other', '--busy', 'fail', '--timeout', '1s', '--', 'echo', 'ran'], {
        url: replica.url,
      });
      expect(await other.code()).toBe(75);
      expect(other.stdout).toBe('');
      const others = [
        ['queue', 'push', 'q', 'x', '--timeout', '1s'],
        ['elect', 'other', '--timeout', '1s', '--', 'true'],
        ['group', 'join', 'other', '--timeout', '1s', '--', 'true'],
        ['barrier', 'wait', 'other', '--timeout', '1s'],
        ['top', '--once', '--timeout', '1s'],
      ].map((words) => runCommand(words, { url: replica.url }));
      expect(await Promise.all(others.map((each) => each.code()))).toEqual([75, 75, 75, 75, 75]);
    } finally {
      zookeeper.resume();
    }
    await eventually('the lock is free', async () => (await replica.showLock('held')).holderCount === 0, {
      withinMs: LONG_MS,
    });
  });
});
