/** Queues while a transaction that seals is lost, a push fails among others, and a replica's own session is lost. */
import { expect, test } from 'vitest';
import { ClientGoneError } from '../../../../src/errors.js';
import { encodeMessage } from '../../../../src/recipes/queue/message.js';
import { pushMessages } from '../../../../src/recipes/queue/push/push.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, claim, pop, push, pushBodies, queueOf, settleAll } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { beforeMulti, keptAlive, PRESENT, soon, startCuttable } from '../../../support/scene.js';

function upTo(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

/** Everything that is in the queue, in order. */
async function popAll(replica: Replica): Promise<unknown[]> {
  const all: unknown[] = [];
  for (;;) {
    const some = await pop(replica, 'work', { max: 100 });
    if (some.length === 0) return all;
    all.push(...bodiesOf(some));
  }
}

/** By segment, in their order: whether it is sealed. */
async function sealed({ gateway }: Replica): Promise<boolean[]> {
  const { recipes, context } = gateway;
  const { queues } = recipes.queue;
  const { paths } = await queues.expect('default', 'work', soon());
  await context.control.sync(paths.data);
  const { children } = await context.control.getChildren(paths.priority(100));
  const stats = await Promise.all(
    children.sort().map((segment) => context.control.exists(`${paths.priority(100)}/${segment}`)),
  );
  return stats.map((stat) => (stat?.version ?? 0) > 0);
}

/** Calls `ambush` when the replica is about to send the transaction that seals a segment. */
function beforeSeal(replica: Replica, ambush: () => void): void {
  beforeMulti(
    replica,
    ambush,
    ([first, second, ...more]) => first?.type === 'setData' && second?.type === 'create' && more.length === 0,
  );
}

test.each(['loseReply', 'loseRequest'] as const)(
  'a segment whose sealing meets %s is sealed once, and everything is there once, in order (C23, C24)',
  { timeout: scaled(60_000) },
  async (fault) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await pushBodies(a, 'work', upTo(990));
    let cut: Promise<void> | undefined;
    beforeSeal(a, () => {
      cut = proxy[fault](OPCODE.multi);
    });
    // One after the other, so that their order is known; the tenth fills the segment.
    for (const body of upTo(20, 990)) await push(a, 'work', [{ body, messageId: `m-${body}` }]);
    expect(cut).toBeDefined();
    await cut;
    for (const body of upTo(5, 1_010)) await pushBodies(body % 2 === 0 ? a : b, 'work', [body]);
    expect(await sealed(b)).toEqual([true, false]);
    // What was answered is known to be there.
    for (const body of upTo(20, 990)) await push(b, 'work', [{ body, messageId: `m-${body}` }]);
    expect(await popAll(b)).toEqual(upTo(1_015));
  },
);

test('a push that fails in a transaction with others costs them nothing, and not their order (C25)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  await pushBodies(a, 'work', ['first']);
  const queue = await a.gateway.recipes.queue.queues.expect('default', 'work', soon());
  const gone = (name: string) => ({
    data: Buffer.from('none of ours'),
    priority: 100,
    group: undefined,
    conditions: [{ type: 'delete' as const, path: `${queue.paths.data}/${name}` }],
  });
  proxy.delay('toZooKeeper', 300);
  const inFront = pushBodies(a, 'work', ['in front']); // while it is on its way the others come together
  await eventually('a transaction is on its way', () => proxy.heldBytes('toZooKeeper') > 0);
  const sent: unknown[] = [];
  const neighbours: Promise<unknown>[] = [];
  // Each is in the lane before the next one is sent.
  const next = async (body: unknown): Promise<void> => {
    const push = queue.lane.push.bind(queue.lane);
    let inLane = false;
    queue.lane.push = (one) => {
      queue.lane.push = push;
      inLane = true;
      return push(one);
    };
    sent.push(body);
    neighbours.push(pushBodies(a, 'work', [body]));
    await eventually('it is in the lane', () => inLane);
  };
  await next(1);
  const refusal = new Error('its condition does not hold');
  const fails = queue.lane.push({
    arrivals: [gone('nobody')],
    deadline: soon(),
    refused: () => Promise.reject(refusal),
  });
  const failed = expect(fails).rejects.toBe(refusal);
  await next(2);
  const nothingLeft = queue.lane.push({
    arrivals: [gone('nothing')],
    deadline: soon(),
    refused: () => Promise.resolve([]),
  });
  await next(3);
  const large = Array.from({ length: 5 }, () => ({ body: 'x'.repeat(250_000) }));
  expect((await push(a, 'work', large)).status).toBe(413);
  await next(4);
  proxy.delay('toZooKeeper', 0);
  await Promise.all([inFront, ...neighbours, failed, nothingLeft]);
  expect(await popAll(a)).toEqual(['first', 'in front', ...sent]);
});

test('a push that was told that nothing was done is not sent afterwards with others (C25)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  await pushBodies(b, 'work', ['first']);
  await a.gateway.recipes.queue.queues.expect('default', 'work', soon());
  // Its first transaction needs two answers before; the one with less time is over by then.
  proxy.delay('fromZooKeeper', 400);
  const pushed = (body: string, ms: number): Promise<unknown> =>
    pushMessages(a.gateway.recipes.queue.queues, 'default', 'work', [{ body: Buffer.from(JSON.stringify(body)) }], {
      deadline: soon(ms),
      requester: PRESENT,
    });
  const [late, inTime] = [pushed('late', 300), pushed('in time', timing.eventuallyMs)];
  await expect(late).rejects.toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
  await inTime;
  proxy.heal();
  expect(await popAll(b)).toEqual(['first', 'in time']);
});

test('nor is one whose client hangs up, or whose time ends, while the replica has no connection (C25)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica: a, proxy } = cuttable;
  await pushBodies(a, 'work', ['first']); // the lane knows all that it needs
  const { lane } = await a.gateway.recipes.queue.queues.expect('default', 'work', soon());
  proxy.refuse();
  proxy.cut();
  await eventually('it has no connection', () => !a.gateway.context.control.connected);
  const client = { gone: false };
  const pushed = (body: string, ms?: number): Promise<void> =>
    lane.push({
      arrivals: [
        {
          data: encodeMessage({ header: { i: body }, body: Buffer.from('1') }),
          priority: 100,
          group: undefined,
          conditions: [],
        },
      ],
      deadline: soon(ms),
      requester: client,
      refused: () => Promise.resolve([]),
    });
  const [hungUp, late] = [pushed('hung up'), pushed('late', 100)];
  const outcome = expect(hungUp).rejects.toBeInstanceOf(ClientGoneError);
  await expect(late).rejects.toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
  client.gone = true;
  proxy.accept();
  await outcome;
  expect(await popAll(a)).toEqual(['first']);
});

test(
  'a replica that loses its own session loses no claim, and goes on serving those who wait (T4)',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const { control } = a.gateway.context;
    const lease = await b.createLease({ ttlMs: 8_000 });
    await using _alive = keptAlive(b, [lease], 8_000);
    await pushBodies(b, 'work', upTo(4));
    const claims = await claim(a, 'work', lease, { max: 2 });
    expect(bodiesOf(claims)).toEqual([0, 1]);
    expect(bodiesOf(await pop(a, 'work', { max: 2 }))).toEqual([2, 3]); // it has the turn
    const waiting = [0, 1].map(() => pop(a, 'work', { waitMs: 40_000 }));
    await eventually('both wait', async () => (await a.metric('postern_waiters', { kind: 'queue' })) === 2);
    const session = control.sessionId;
    proxy.suspend();
    await eventually('the session is given up', () => control.sessionId !== session, { withinMs: scaled(15_000) });
    // The turn went with it, and another replica takes.
    await pushBodies(b, 'work', ['meanwhile']);
    expect(bodiesOf(await pop(b, 'work', { waitMs: 10_000 }))).toEqual(['meanwhile']);
    await pushBodies(b, 'work', ['during']);
    proxy.heal();
    await pushBodies(b, 'work', ['after']);
    expect(bodiesOf((await Promise.all(waiting)).flat())).toEqual(expect.arrayContaining(['during', 'after']));
    // The claims are the lease's, not the replica's.
    expect(await queueOf(b, 'work')).toMatchObject({ depth: 2, claimed: 2 });
    await settleAll(a, 'work', 'ack', lease, claims);
    expect(await queueOf(b, 'work')).toMatchObject({ depth: 0, claimed: 0 });
    expect(await pop(a, 'work')).toEqual([]);
  },
);

test('a claim of which nothing was known by the deadline is found and taken back while the lease lives (C28)', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(3_000)) } });
  const { replica: a, proxy } = cuttable;
  await pushBodies(b, 'work', [0, 1, 2, 3]);
  const { leaseToken } = await b.createLease({ ttlMs: 20_000 });
  expect(bodiesOf(await pop(a, 'work'))).toEqual([0]); // it has the turn: the next transaction is that of the claim
  const lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
  const answer = await a.call('POST', '/v1/queues/work/claim', { body: { max: 2 }, leaseToken });
  expect(answer).toMatchObject({ status: 503, body: { retryable: true } });
  await lost;
  expect(await queueOf(b, 'work')).toMatchObject({ depth: 3 });
  proxy.accept();
  await eventually('it is taken back', async () => (await queueOf(b, 'work')).claimed === 0);
  // That it was made, their second delivery tells.
  const claims = await claim(b, 'work', { leaseToken }, { max: 3, waitMs: 5_000 });
  expect(claims.map(({ body, deliveries }) => [body as number, deliveries])).toEqual([
    [1, 2],
    [2, 2],
    [3, 1],
  ]);
});

test('a push does not wait for a consumer that has more time, where both need to know of the same queue', async () => {
  const root = freshRoot();
  const requestMs = scaled(1_000);
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(requestMs) } });
  const { replica, proxy } = cuttable;
  proxy.refuse();
  proxy.cut();
  await eventually('it has no connection', () => !replica.gateway.context.control.connected);
  const waitMs = 10 * requestMs;
  const popped = replica.call('POST', '/v1/queues/work/pop', { body: { waitMs } });
  await eventually('it waits', async () => (await replica.metric('postern_http_requests_in_flight')) >= 1);
  const begunAt = performance.now();
  expect((await replica.call('POST', '/v1/queues/work/messages', { body: { messages: [{ body: 1 }] } })).status).toBe(
    503,
  );
  expect(performance.now() - begunAt).toBeLessThan(waitMs / 2);
  proxy.accept();
  await eventually('it is connected', () => replica.gateway.context.control.connected);
  await eventually('it is pushed', async () => {
    const { status } = await replica.call('POST', '/v1/queues/work/messages', { body: { messages: [{ body: 1 }] } });
    return status === 200 || status === 201;
  });
  expect((await popped).status).toBe(200);
});
