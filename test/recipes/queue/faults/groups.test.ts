/**
 * Groups under many consumers at two replicas, which also give back, and while replicas and connections are lost: one
 * message of a group at a time, in order.
 */
import { expect, test } from 'vitest';
import { encodeMessage } from '../../../../src/recipes/queue/message.js';
import { eventually } from '../../../support/eventually.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { soon, startCuttable } from '../../../support/scene.js';
import { spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { bodiesOf, claim, configure, pop, push, queueOf, settleAll, type ClaimedMessage } from '../client.js';

const GROUPS = 10;
const EACH = 12;
const CONSUMERS_EACH = 4;
/** Of one group in all, at most. */
const GIVEN_BACK = 3;

const TTL_MS = 60_000;
const WAIT = { waitMs: 20_000, max: 10 };
const A_AND_B = ['a1', 'b1', 'a2', 'b2'].map((body) => ({ body, group: body.slice(0, 1) }));

test('many consumers at two replicas get each group in order, one message at a time', async () => {
  await using pair = await startPair({ root: freshRoot() });
  await configure(pair.a, 'work', { order: 'grouped' });
  for (let i = 0; i < EACH; i += 1)
    await push(
      pair.a,
      'work',
      Array.from({ length: GROUPS }, (_, group) => ({ body: i, group: `g${group}` })),
    );
  /** Of each group: which message is next, whether one is out, and how often one was given back. */
  const groups = new Map(Array.from({ length: GROUPS }, (_, i) => [`g${i}`, { next: 0, out: false, back: 0 }]));
  let left = GROUPS * EACH;
  const consume = async (own: typeof pair.a, other: typeof pair.a): Promise<void> => {
    const lease = await own.createLease({ ttlMs: 60_000 });
    while (left > 0) {
      const claimed = await claim(own, 'work', lease, { max: 3, waitMs: 500 });
      for (const { body, group = '' } of claimed as { body: number; group?: string }[]) {
        const state = groups.get(group);
        expect({ group, body, out: state?.out }).toEqual({ group, body: state?.next, out: false });
        if (state !== undefined) state.out = true;
      }
      for (const message of claimed) {
        const state = groups.get(message.group ?? '') as { next: number; out: boolean; back: number };
        const isBack = state.back < GIVEN_BACK && state.next % 4 === state.back;
        // Before it is settled: the next one may be out before the answer is here.
        state.out = false;
        if (isBack) state.back += 1;
        else {
          state.next += 1;
          left -= 1;
        }
        await settleAll(state.next % 2 === 0 ? own : other, 'work', isBack ? 'nack' : 'ack', lease, [message]);
      }
    }
  };
  await Promise.all(
    Array.from({ length: CONSUMERS_EACH }, () => [consume(pair.a, pair.b), consume(pair.b, pair.a)]).flat(),
  );
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, claimed: 0 });
});

test('the claims of a replica that is killed hold their groups up until their leases end', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  await using a = await spawnReplica({ root, controlSessionTimeoutMs: 2_000 });
  const [one, other] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await configure(b, 'work', { order: 'grouped' });
  await push(b, 'work', A_AND_B);
  const a1 = await claimOf(a, one, 'a1');
  await claimOf(a, other, 'b1');
  await a.kill();
  await push(b, 'work', [{ body: 'c1', group: 'c' }]);
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['c1']);
  const next = claim(b, 'work', one, WAIT);
  await eventually('it waits', async () => (await queueOf(b, 'work')).consumersWaiting === 1);
  await b.expect(204, 'DELETE', '/v1/leases/self', { leaseToken: other.leaseToken });
  const b1 = await next;
  expect(b1).toMatchObject([{ body: 'b1', deliveries: 2 }]);
  await settleAll(b, 'work', 'ack', one, [a1]);
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['a2']);
  await settleAll(b, 'work', 'ack', one, b1);
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['b2']);
});

test('a claim holds its group up while its replica has lost its session and another one has the turn', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const { control } = a.gateway.context;
  const lease = await b.createLease({ ttlMs: TTL_MS });
  await configure(b, 'work', { order: 'grouped' });
  await push(b, 'work', A_AND_B);
  const a1 = await claimOf(a, lease, 'a1');
  const session = control.sessionId;
  proxy.suspend();
  await eventually('the session is given up', () => control.sessionId !== session, { withinMs: scaled(15_000) });
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['b1']);
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['b2']);
  await push(b, 'work', [{ body: 'a3', group: 'a' }]);
  expect(await pop(b, 'work', { max: 10 })).toEqual([]);
  proxy.heal();
  await eventually('it is connected', () => control.connected);
  expect(await pop(a, 'work', { max: 10 })).toEqual([]);
  await settleAll(a, 'work', 'ack', lease, [a1]);
  expect(bodiesOf(await pop(a, 'work', WAIT))).toEqual(['a2']);
  expect(bodiesOf(await pop(b, 'work', WAIT))).toEqual(['a3']);
});

test('a connection that is lost and comes back costs no group its order, and frees none', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  const { control } = a.gateway.context;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await configure(a, 'work', { order: 'grouped' });
  await push(a, 'work', A_AND_B);
  const a1 = await claimOf(a, lease, 'a1');
  expect(bodiesOf(await pop(a, 'work', { max: 10 }))).toEqual(['b1']);
  proxy.refuse();
  proxy.cut();
  await eventually('it has no connection', () => !control.connected);
  proxy.accept();
  await eventually('it is connected', () => control.connected);
  expect(bodiesOf(await pop(a, 'work', WAIT))).toEqual(['b2']);
  expect(await pop(a, 'work', { max: 10 })).toEqual([]);
  await settleAll(a, 'work', 'ack', lease, [a1]);
  expect(bodiesOf(await pop(a, 'work', WAIT))).toEqual(['a2']);
});

test('a nack with a delay is refused at any replica, and its claim still holds its group up', async () => {
  await using pair = await startPair({ root: freshRoot() });
  const { a, b } = pair;
  const lease = await a.createLease({ ttlMs: TTL_MS });
  await configure(a, 'work', { order: 'grouped' });
  await push(
    a,
    'work',
    A_AND_B.filter(({ group }) => group === 'a'),
  );
  const a1 = await claimOf(a, lease, 'a1');
  const { leaseToken } = lease;
  for (const replica of [b, a]) {
    const body = { claimIds: [a1.claimId], delayMs: 1 };
    const reply = await replica.call('POST', '/v1/queues/work/nack', { body, leaseToken });
    expect(reply).toMatchObject({ status: 422, body: { field: 'delayMs' } });
    expect(await pop(replica, 'work', { max: 10 })).toEqual([]);
  }
  await settleAll(b, 'work', 'nack', lease, [a1]);
  expect(await claim(b, 'work', lease, WAIT)).toMatchObject([{ body: 'a1', deliveries: 2 }]);
});

test('a message without a group that is there all the same is one of its own', async () => {
  await using replica = await startReplica({ root: freshRoot() });
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  await configure(replica, 'work', { order: 'grouped' });
  await push(replica, 'work', A_AND_B.slice(0, 1));
  // As the redrive of a queue without groups might bring it.
  const { lane } = await replica.gateway.recipes.queue.queues.expect('default', 'work', soon());
  for (const text of ['x', 'y']) {
    const data = encodeMessage({ header: { i: text }, body: Buffer.from(JSON.stringify(text)) });
    const arrivals = [{ data, priority: 100, group: undefined, conditions: [] }];
    await lane.push({ arrivals, deadline: soon(), refused: () => Promise.resolve([]) });
  }
  await push(replica, 'work', A_AND_B.slice(2, 3));
  const claimed = await claim(replica, 'work', lease, WAIT);
  expect(bodiesOf(claimed)).toEqual(['a1', 'x', 'y']);
  expect(await pop(replica, 'work', { max: 10 })).toEqual([]);
  await settleAll(replica, 'work', 'ack', lease, claimed);
  expect(bodiesOf(await pop(replica, 'work', WAIT))).toEqual(['a2']);
});

/** The next one, which is this. */
async function claimOf(
  replica: Parameters<typeof claim>[0],
  lease: LeaseHandle,
  body: string,
): Promise<ClaimedMessage> {
  const [claimed] = await claim(replica, 'work', lease, { waitMs: 20_000 });
  expect(claimed?.body).toBe(body);
  return claimed as ClaimedMessage;
}
