/**
 * Queues while answers are lost and replicas stand still: nothing is lost, nothing comes twice, and the order stays.
 */
import { expect, test } from 'vitest';
import type { Client, LeaseHandle } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import {
  spawnReplica,
  STANDING_WATCHES,
  startPair,
  startReplica,
  type Replica,
} from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { startCuttable } from '../../../support/scene.js';

const TTL_MS = 20_000;
const MULTI = 14;
const CREATE = 15;

interface Item {
  body: unknown;
  claimId: string;
  deliveries: number;
}

function push(replica: Client, bodies: readonly unknown[], more: Record<string, unknown> = {}): Promise<unknown> {
  return replica.expect(201, 'POST', '/v1/queues/q/messages', {
    body: { messages: bodies.map((body) => ({ body, ...more })) },
  });
}

async function pop(replica: Client, max = 100, waitMs = 0): Promise<unknown[]> {
  const reply = (await replica.expect([200, 204], 'POST', '/v1/queues/q/pop', { body: { max, waitMs } })) as
    { items: Item[] } | undefined;
  return (reply?.items ?? []).map(({ body }) => body);
}

/** Everything that is in the queue, in order. */
async function popAll(replica: Client): Promise<unknown[]> {
  const all: unknown[] = [];
  for (;;) {
    const some = await pop(replica);
    if (some.length === 0) return all;
    all.push(...some);
  }
}

async function claim(replica: Client, lease: LeaseHandle, body: Record<string, unknown> = {}): Promise<Item[]> {
  const reply = (await replica.expect([200, 204], 'POST', '/v1/queues/q/claim', {
    body,
    leaseToken: lease.leaseToken,
  })) as { items: Item[] } | undefined;
  return reply?.items ?? [];
}

async function takers(replica: Replica): Promise<number> {
  const { control, layout } = replica.gateway.context;
  const node = await control.getData(layout.queue('default', 'q'));
  const { id } = JSON.parse(node.data.toString('utf8')) as { id: string };
  return (await control.getChildren(`${layout.queueData('default', id)}/takers`)).children.length;
}

function upTo(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

async function untilWaiting(replica: Replica): Promise<void> {
  await eventually('somebody waits', async () => (await replica.metric('postern_waiters', { kind: 'queue' })) > 0);
}

test.each(['loseReply', 'loseRequest'] as const)(
  'pushes whose transaction meets %s are there once, in order, and so are their neighbours (C25)',
  async (fault) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    await push(cuttable.replica, [0]);
    const cut = cuttable.proxy[fault](MULTI);
    await Promise.all(upTo(8, 1).map((body) => push(cuttable.replica, [body])));
    await cut;
    expect(await popAll(b)).toHaveLength(9);
  },
);

test('a lane that is made anew takes no old number for its own (C25)', { timeout: scaled(60_000) }, async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  const { replica, proxy } = cuttable;
  for (const body of upTo(4)) await push(replica, [body]);
  await eventually(
    'the queue is dropped from memory',
    () => replica.gateway.context.control.watches.size === STANDING_WATCHES,
    { withinMs: scaled(20_000) },
  );
  const cut = proxy.loseRequest(MULTI);
  await push(replica, [4]);
  await cut;
  expect(await popAll(replica)).toEqual(upTo(5));
});

test('the same messageId twice at once is one message, and holds nobody up (C26)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  await push(a, ['first']);
  proxy.delay('toZooKeeper', 300);
  const inFront = push(a, ['in front']); // while it is on its way the others come together
  await eventually('a transaction is on its way', () => proxy.heldBytes('toZooKeeper') > 0);
  const others = [
    ...upTo(6).map(() => push(a, ['twice'], { messageId: 'one' })),
    push(a, ['neighbour'], { messageId: 'two' }),
  ];
  await inFront;
  proxy.delay('toZooKeeper', 0);
  await Promise.all(others);
  expect((await popAll(a)).sort()).toEqual(['first', 'in front', 'neighbour', 'twice']);
});

test('what came into a segment before it was sealed is not overtaken, also while one of it is claimed (C23)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await push(b, [0]);
  expect(await claim(a, lease)).toMatchObject([{ body: 0 }]);
  expect(await pop(a)).toEqual([]); // it has listed the segment, and watches it
  await push(b, upTo(1_000, 1)); // fills it
  await push(b, [1_001]);
  expect(await popAll(a)).toEqual(upTo(1_001, 1));
  await a.endLease(lease);
  expect(await pop(a, 1, 5_000)).toEqual([0]);
});

test('a pusher that dies before it seals leaves that to the next one, and the order stays (C24)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await push(a, upTo(999));
  const cut = proxy.loseReply(MULTI).then(() => proxy.refuse()); // the segment is full, and a is gone
  const last = push(a, [999]).catch(() => undefined);
  await cut;
  await push(b, [1_000]);
  await push(b, [1_001]);
  expect(await popAll(b)).toEqual(upTo(1_002));
  proxy.accept();
  await last;
  expect(await popAll(b)).toEqual([]); // a has found out that it was done
});

test('a pop whose answer is lost on the way from ZooKeeper is answered all the same', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await push(b, upTo(10));
  const cut = proxy.loseReply(MULTI);
  expect(await pop(a, 5)).toEqual(upTo(5));
  await cut;
  const another = proxy.loseRequest(MULTI);
  expect(await pop(a, 3)).toEqual(upTo(3, 5));
  await another;
  expect(await popAll(b)).toEqual([8, 9]);
});

test('a claim and an acknowledgement whose answers are lost are each done once (C28)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await push(b, upTo(3));
  const cut = proxy.loseReply(MULTI);
  const items = await claim(a, lease, { max: 2 });
  await cut;
  expect(items).toMatchObject([
    { body: 0, deliveries: 1 },
    { body: 1, deliveries: 1 },
  ]);
  const again = proxy.loseReply(MULTI);
  const acked = (await a.expect(200, 'POST', '/v1/queues/q/ack', {
    body: { claimIds: items.map(({ claimId }) => claimId) },
    leaseToken: lease.leaseToken,
  })) as { items: { status: number }[] };
  await again;
  expect(acked.items.map(({ status }) => status)).toEqual([200, 200]);
  await a.endLease(lease);
  expect(await popAll(b)).toEqual([2]);
});

test('a replica whose place in the line of takers was made without its knowledge has no second one', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await push(b, [0]);
  const cut = proxy.loseReply(CREATE);
  expect(await pop(a)).toEqual([0]);
  await cut;
  expect(await takers(b)).toBe(1);
});

test('who waits at a queue that is deleted and made anew gets what is pushed to the new one (C23)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await push(b, ['old']);
  expect(await pop(b)).toEqual(['old']);
  const waiting = pop(a, 1, 10_000);
  await untilWaiting(a);
  await b.expect(204, 'DELETE', '/v1/queues/q');
  await push(b, ['new']);
  expect(await waiting).toEqual(['new']);
});

test('what is given back or left through another replica is there for who does not wait', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const lease = await b.createLease({ ttlMs: TTL_MS });
  await push(b, [0]);
  for (let deliveries = 1; deliveries <= 5; deliveries += 1) {
    const [item] = await claim(a, lease);
    expect(item).toMatchObject({ body: 0, deliveries });
    await b.expect(200, 'POST', '/v1/queues/q/nack', {
      body: { claimIds: [item?.claimId] },
      leaseToken: lease.leaseToken,
    });
  }
  expect(await claim(a, lease)).toHaveLength(1);
  await b.endLease(lease);
  expect(await pop(a)).toEqual([0]);
});

test(
  'others go on when the replica whose turn it is stands still, and nothing is taken twice when it wakes up',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await startReplica({ root });
    await push(b, ['first']);
    expect(await pop(a)).toEqual(['first']); // it is a's turn, and stays so for a while
    const waiting = pop(a, 1, 30_000);
    await eventually('somebody waits', async () =>
      /postern_waiters\{kind="queue"\} 1/.test((await a.call('GET', '/metrics')).body as string),
    );
    a.pause();
    await push(b, upTo(3));
    const startedAt = performance.now();
    expect(await pop(b, 2, 10_000)).toEqual([0, 1]);
    const tookMs = performance.now() - startedAt;
    console.log(`the turn was taken over in ${Math.round(tookMs)} ms`);
    expect(tookMs).toBeLessThan(scaled(3_000));
    a.resume();
    expect(await waiting).toEqual([2]);
    expect(await popAll(b)).toEqual([]);
  },
);

test('waiting consumers outlive a loss of all connections', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await push(b, ['before']);
  expect(await pop(a)).toEqual(['before']);
  const waiting = pop(a, 1, 20_000);
  await untilWaiting(a);
  proxy.refuse();
  proxy.cut();
  await push(b, ['meanwhile']);
  await throughout('it waits', () => a.gateway.context.control.connected === false);
  proxy.accept();
  expect(await waiting).toEqual(['meanwhile']);
});

test(
  'three replicas under load hardly ever reach for the same message, and each gets its share',
  { timeout: scaled(90_000) },
  async () => {
    const root = freshRoot();
    await using a = await startReplica({ root });
    await using b = await startReplica({ root });
    await using c = await startReplica({ root });
    const replicas = [a, b, c];
    const total = 1_500;
    for (let i = 0; i < total; i += 500) await push(a, upTo(500, i));
    const seen = new Set<unknown>();
    const startedAt = performance.now();
    const share = [0, 0, 0];
    await Promise.all(
      replicas.flatMap((replica, i) =>
        upTo(6).map(async () => {
          const lease = await replica.createLease({ ttlMs: TTL_MS });
          for (;;) {
            const items = await claim(replica, lease, { max: 2, waitMs: 3_000 });
            if (items.length === 0) break;
            for (const { body } of items) seen.add(body);
            share[i] = (share[i] as number) + items.length;
            await replica.expect(200, 'POST', '/v1/queues/q/ack', {
              body: { claimIds: items.map(({ claimId }) => claimId) },
              leaseToken: lease.leaseToken,
            });
          }
          await replica.endLease(lease);
        }),
      ),
    );
    let conflicts = 0;
    for (const replica of replicas) conflicts += await replica.metric('postern_queue_claim_conflicts_total');
    console.log(
      `${conflicts} conflicts in ${total} takes, ${Math.round(performance.now() - startedAt)} ms; shares ${share.join(', ')}`,
    );
    expect(seen.size).toBe(total);
    expect(share.reduce((sum, one) => sum + one)).toBe(total);
    expect(conflicts / total).toBeLessThan(0.05);
    expect(Math.min(...share) / total).toBeGreaterThan(0.1);
  },
);
