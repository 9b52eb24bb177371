/** A lease with very many claims: they are found again, and settled, in few requests to ZooKeeper. */
import { expect, test } from 'vitest';
import { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { ensembleOf } from '../../../support/zookeeper/sessions.js';
import { claim, pushBodies, settle, type ClaimedMessage } from '../client.js';

const TTL_MS = 20_000;

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

/** The paths of all messages in the queue, in order. */
async function messagePaths(replica: Replica, name: string): Promise<string[]> {
  const { control, layout } = replica.gateway.context;
  const { id } = JSON.parse((await control.getData(layout.queue('default', name))).data.toString('utf8')) as {
    id: string;
  };
  const priority = `${layout.queueData('default', id)}/p100`;
  const segments = (await control.getChildren(priority)).children.sort().map((segment) => `${priority}/${segment}`);
  const lists = await Promise.all(
    segments.map(async (segment) =>
      (await control.getChildren(segment)).children.map((child) => `${segment}/${child}`),
    ),
  );
  return lists.flat().sort();
}

async function transactions(replica: Replica): Promise<number> {
  const { values } = await replica.gateway.metrics.zookeeperRequestDurationSeconds.get();
  return values
    .filter(({ metricName, labels }) => metricName?.endsWith('_count') && labels['op'] === 'multi')
    .reduce((sum, { value }) => sum + value, 0);
}

test(
  'with more claims than one request to ZooKeeper can name, those of a requestId are found again',
  {
    timeout: scaled(60_000),
  },
  async () => {
    const root = freshRoot();
    await using replica = await startReplica({ root });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    for (const _ of upTo(12)) await pushBodies(replica, 'q', upTo(1_000));
    const first = await claim(replica, 'q', lease, { max: 2, requestId: 'r' });
    // As a lease may have that was used through a version without a limit.
    const { leases } = replica.gateway.context;
    const within = performance.now() + timing.eventuallyMs;
    const opened = await leases.open(lease.leaseToken, { principal: 'anonymous', namespace: 'default' }, within);
    const session = await LeaseSession.attach(ensembleOf(sharedZooKeeper()), opened.lease.identity, {
      timeoutMs: TTL_MS,
      affinity: 0,
      deadline: within,
    });
    const paths = (await messagePaths(replica, 'q')).slice(10);
    for (let i = 0; i < paths.length; i += 500)
      await session.multi(
        paths.slice(i, i + 500).map((path) => ({ type: 'create', path: `${path}/c`, mode: 'ephemeral' })),
        performance.now() + timing.eventuallyMs,
      );
    session.detach();
    const again = await claim(replica, 'q', lease, { max: 2, requestId: 'r' });
    expect(again.map(({ claimId }) => claimId)).toEqual(first.map(({ claimId }) => claimId));
  },
);

test.each(['ack', 'nack'] as const)(
  '%s of many claims of which half are lost takes a few transactions',
  async (what) => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await pushBodies(replica, 'q', upTo(400));
    const claims: ClaimedMessage[] = [];
    while (claims.length < 400) claims.push(...(await claim(replica, 'q', lease, { max: 100 })));
    const { control } = replica.gateway.context;
    const lost = (await messagePaths(replica, 'q')).filter((_, i) => i % 2 === 1);
    await control.multi(lost.map((path) => ({ type: 'delete', path: `${path}/c` })));
    const before = await transactions(replica);
    const settled = await settle(replica, 'q', what, lease, claims);
    expect(settled.map(({ status }) => status)).toEqual(claims.map((_, i) => (i % 2 === 0 ? 200 : 409)));
    expect((await transactions(replica)) - before).toBeLessThan(12);
  },
);
