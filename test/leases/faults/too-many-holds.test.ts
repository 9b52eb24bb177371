/**
 * The end of a lease that owns as much as one may: servers with their own defaults go on, and start again from what
 * they have written. Beyond twice `jute.maxbuffer` no server of the ensemble could read its log any more
 * (ZOOKEEPER-4306).
 */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { LeaseSession } from '../../../src/zookeeper/lease-session.js';
import type { LeaseHandle, Reply } from '../../support/http/client.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { startEnsemble, startZooKeeper, type TestEnsemble, type TestZooKeeper } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';
import { ensembleOf, within } from '../../support/zookeeper/sessions.js';

const TTL_MS = 40_000;
/**
 * As servers have it unless they are told otherwise; those that Postern starts are
 * (`scripts/lib/zookeeper-server.mjs`).
 */
const BY_DEFAULT = { jvmFlags: ['-Dzookeeper.closeSessionTxn.enabled=true'] };

const LOCKS = 8_000;
const LOCKS_AT_ONCE = 100;
const MESSAGES = 26_000;
const PUSHED_AT_ONCE = 1_000;
const CLAIMED_AT_ONCE = 100;

/** @returns how many it has got until it was refused, and the refusal */
async function lockAll(replica: Replica, { leaseToken }: LeaseHandle): Promise<{ got: number; refused?: Reply }> {
  for (let got = 0; got < LOCKS; got += LOCKS_AT_ONCE) {
    const names = Array.from({ length: LOCKS_AT_ONCE }, (_, i) => String(got + i).padStart(200, 'l'));
    const reply = await replica.call('POST', '/v1/locks/acquire', { leaseToken, body: { names } });
    if (reply.status !== 200) return { got, refused: reply };
  }
  return { got: LOCKS };
}

async function pushAll(replica: Replica): Promise<void> {
  const messages = Array.from({ length: PUSHED_AT_ONCE }, () => ({ body: 0 }));
  for (let pushed = 0; pushed < MESSAGES; pushed += PUSHED_AT_ONCE)
    await replica.expect(201, 'POST', '/v1/queues/q/messages', { body: { messages } });
}

async function claimAll(replica: Replica, { leaseToken }: LeaseHandle): Promise<{ got: number; refused?: Reply }> {
  for (let got = 0; got < MESSAGES;) {
    const body = { max: CLAIMED_AT_ONCE };
    const reply = await replica.call('POST', '/v1/queues/q/claim', { leaseToken, body });
    if (reply.status !== 200) return { got, refused: reply };
    got += (reply.body as { items: unknown[] }).items.length;
  }
  return { got: MESSAGES };
}

/** Ends the lease, and starts every server again. */
async function endAndRestart(
  replica: Replica,
  lease: LeaseHandle,
  zookeeper: TestEnsemble | TestZooKeeper,
): Promise<void> {
  expect((await replica.endLease(lease)).status).toBe(204);
  await replica.untilEnded(lease);
  await Promise.all(zookeeper.nodes.map((node) => node.kill()));
  await Promise.all(zookeeper.nodes.map((node) => node.start()));
  await Promise.all(zookeeper.nodes.map((node) => node.ready()));
  await replica.untilReady();
  const next = await replica.createLease({ ttlMs: TTL_MS });
  await replica.hold('again', next);
  await replica.endLease(next);
}

test(
  '8 000 locks with long names, and 26 000 claims, are refused to one lease, and an ensemble survives its end (C38)',
  {
    timeout: scaled(240_000),
  },
  async () => {
    await using ensemble = await startEnsemble(BY_DEFAULT);
    await using replica = await startReplica({ zookeeper: ensemble.connectString });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    const { got, refused } = await lockAll(replica, lease);
    expect(got).toBeGreaterThan(2_000);
    expect(refused).toMatchObject({
      status: 409,
      body: { code: 'too-many-holds', limit: 'maxPathBytesPerLease', maxPathBytesPerLease: 700_000 },
    });
    await endAndRestart(replica, lease, ensemble);
    await pushAll(replica); // before there is a lease, which would wait for it without a heartbeat
    const claimer = await replica.createLease({ ttlMs: TTL_MS });
    const claimed = await claimAll(replica, claimer);
    expect(claimed.got).toBeGreaterThan(5_000);
    expect(claimed.refused).toMatchObject({ status: 409, body: { code: 'too-many-holds' } });
    await endAndRestart(replica, claimer, ensemble);
  },
);

/** A session that is bounded by nobody makes more nodes than the end of one can list, and ends. */
async function endAVeryRichSession(zookeeper: TestZooKeeper): Promise<void> {
  const ensemble = ensembleOf(zookeeper.connectString);
  const session = await LeaseSession.open(ensemble, { timeoutMs: TTL_MS, affinity: 0, deadline: within() });
  await session.create('/rich', undefined, {}, within());
  for (let i = 0; i < 20; i += 1)
    await session.multi(
      Array.from({ length: 500 }, () => ({
        type: 'create' as const,
        path: `/rich/${'x'.repeat(200)}`,
        mode: 'ephemeral-sequential' as const,
      })),
      within(),
    );
  await session.close(within());
}

test(
  'servers that write the end of a session without what it owned survive any; others are started again with a larger jute.maxbuffer',
  {
    timeout: scaled(120_000),
  },
  async () => {
    await using without = await startZooKeeper();
    await endAVeryRichSession(without);
    await without.restart();

    const jvmFlags = [...BY_DEFAULT.jvmFlags];
    await using zookeeper = await startZooKeeper({ jvmFlags });
    await endAVeryRichSession(zookeeper);
    await zookeeper.kill();
    await zookeeper.node.start();
    await expect(zookeeper.node.ready()).rejects.toThrow('ended before it served');
    expect(await readFile(zookeeper.node.logFile, 'utf8')).toContain('Unreasonable length');
    // What the runbook says.
    jvmFlags.push('-Djute.maxbuffer=67108864');
    await zookeeper.node.restart();
  },
);
