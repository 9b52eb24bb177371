/** Pauses of a queue whose messages are being taken. */
import { afterEach, expect, test } from 'vitest';
import { Head } from '../../../../src/recipes/queue/claim/head.js';
import { ZooKeeperClient } from '../../../../src/zookeeper/client.js';
import { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import type { MultiOperation } from '../../../../src/zookeeper/operations.js';
import { bodiesOf, claim, pop, pushBodies, queueOf } from '../client.js';
import { eventually } from '../../../support/eventually.js';
import { Gate } from '../../../support/gate.js';
import { soon } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';

const TTL_MS = 60_000;
/** Of the replica's session, also where it writes for one client. */
const onControl: ZooKeeperClient['multi'] = Reflect.get(ZooKeeperClient.prototype, 'multi');
const onLease: LeaseSession['multi'] = Reflect.get(LeaseSession.prototype, 'multi');
const next: Head['next'] = Reflect.get(Head.prototype, 'next');

afterEach(() => {
  Head.prototype.next = next;
  ZooKeeperClient.prototype.multi = onControl;
  LeaseSession.prototype.multi = onLease;
});

/** Whether it takes a message out of the queue. */
function takes(operations: readonly MultiOperation[]): boolean {
  return operations.some(
    ({ type, path }) => (type === 'create' && path.endsWith('/c')) || (type === 'delete' && /\/m-[^/]+$/.test(path)),
  );
}

test.each(['pop', 'claim'])(
  'a %s that another replica had begun when the queue was paused takes nothing, and everything when it is resumed (C70)',
  async (op) => {
    await using pair = await startPair();
    const lease = await pair.b.createLease({ ttlMs: TTL_MS });
    await pushBodies(pair.a, 'work', [1, 2]);
    const gate = new Gate();
    gate.shut();
    ZooKeeperClient.prototype.multi = async function (this: ZooKeeperClient, operations, ...how) {
      if (takes(operations)) await gate.pass();
      return onControl.call(this, operations, ...how);
    };
    LeaseSession.prototype.multi = async function (this: LeaseSession, operations, ...how) {
      if (takes(operations)) await gate.pass();
      return onLease.call(this, operations, ...how);
    };
    const take = (): Promise<unknown[]> =>
      op === 'pop'
        ? pop(pair.b, 'work', { max: 2 }).then(bodiesOf)
        : claim(pair.b, 'work', lease, { max: 2 }).then(bodiesOf);
    const begun = take();
    await gate.reached;
    await pair.a.expect(204, 'POST', '/v1/queues/work/pause');
    gate.open();
    expect(await begun).toEqual([]);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 2, claimed: 0, paused: true });
    await pair.a.expect(204, 'POST', '/v1/queues/work/resume');
    expect(await take()).toEqual([1, 2]);
  },
);

test.each(['pop', 'claim'] as const)(
  'a %s whose replica learns of the pause after it has found messages takes nothing (C70)',
  async (op) => {
    await using pair = await startPair();
    const lease = await pair.b.createLease({ ttlMs: TTL_MS });
    await pushBodies(pair.a, 'work', [1]);
    const gate = new Gate();
    gate.shut();
    Head.prototype.next = async function (this: Head, ...how) {
      const found = await next.call(this, ...how);
      await gate.pass();
      return found;
    };
    const begun = op === 'pop' ? pop(pair.b, 'work') : claim(pair.b, 'work', lease);
    await gate.reached;
    await pair.a.expect(204, 'POST', '/v1/queues/work/pause');
    const queue = await pair.b.gateway.recipes.queue.queues.expect('default', 'work', soon());
    await eventually('the replica has learned of it', () => queue.paused);
    gate.open();
    expect(await begun).toEqual([]);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, claimed: 0, paused: true });
  },
);

test('a claim that another replica had begun when the queue was configured is made all the same', async () => {
  await using pair = await startPair();
  const lease = await pair.b.createLease({ ttlMs: TTL_MS });
  await pushBodies(pair.a, 'work', [1]);
  const gate = new Gate();
  gate.shut();
  LeaseSession.prototype.multi = async function (this: LeaseSession, operations, ...how) {
    if (takes(operations)) await gate.pass();
    return onLease.call(this, operations, ...how);
  };
  const claiming = claim(pair.b, 'work', lease);
  await gate.reached;
  await pair.a.expect(200, 'PUT', '/v1/queues/work', { body: { order: 'fifo', maxClaimMs: 5_000 } });
  gate.open();
  expect(await claiming).toMatchObject([{ body: 1, deliveries: 1 }]);
});
