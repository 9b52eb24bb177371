/**
 * What a client gave up is not done later. It asked a replica that cannot reach ZooKeeper, hung up, and did something
 * newer through another replica; or it let things be. When the first replica reaches ZooKeeper again, all is as the
 * newer request has left it.
 */
import type { Dispatcher } from 'undici';
import { expect, test } from 'vitest';
import { leaseFor } from '../recipes/group/client.js';
import type { CallOptions, Client, LeaseHandle } from '../support/http/client.js';
import { eventually } from '../support/eventually.js';
import type { Replica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { startReplica } from '../support/start-gateway.js';
import type { TcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { beforeWrite, startCuttable } from '../support/scene.js';

type Ask = [method: Dispatcher.HttpMethod, path: string, body?: unknown, status?: number];

/** One that names what the first answer of `before` has given. */
type Step = Ask | ((given: Record<string, unknown>) => Ask);

interface Scenario {
  /** Done before, at the replica that works. */
  before?: readonly Ask[];
  /** Asked, and given up. */
  old: Step;
  /** Done afterwards, at the replica that works. */
  newer?: readonly Step[];
  /** How it is looked at. */
  look: Ask;
}

const key = (is: string): Ask => ['PUT', '/v1/config/key', { is }];
const member = (value: unknown): Ask => ['PUT', '/v1/groups/team/members/w1', { value }];
const leave: Ask = ['DELETE', '/v1/groups/team/members/w1'];
const raise: Ask = ['PUT', '/v1/barriers/gate'];
const lift: Ask = ['DELETE', '/v1/barriers/gate'];
const counter = (value: number): Ask => ['PUT', '/v1/counters/hits', { value }];
const permits = (limit: number): Ask => ['PUT', '/v1/semaphores/seats', { limit }];
const queue = (maxDepth: number): Ask => ['PUT', '/v1/queues/work', { order: 'fifo', maxDepth }];
const push = (body: unknown): Ask => ['POST', '/v1/queues/work/messages', { messages: [{ body }] }];
const deleteQueue: Ask = ['DELETE', '/v1/queues/work'];
const acquire: Ask = ['POST', '/v1/locks/door/acquire', {}];
const startRun: Ask = ['POST', '/v1/runs/report/start', { occurrence: 'one', requestId: 'mine' }];
const end: Ask = ['DELETE', '/v1/leases/self'];
const release: Ask = ['POST', '/v1/locks/door/release', {}];

const SCENARIOS: Record<string, Scenario> = {
  'a campaign, after resigning': {
    old: ['POST', '/v1/elections/boss/campaign', {}],
    newer: [['POST', '/v1/elections/boss/resign', {}, 409]], // there is none yet
    look: ['GET', '/v1/elections/boss'],
  },
  'a proclaimed value, after a newer one': {
    before: [['POST', '/v1/elections/boss/campaign', {}]],
    old: ['POST', '/v1/elections/boss/proclaim', { value: 'old' }],
    newer: [['POST', '/v1/elections/boss/proclaim', { value: 'new' }]],
    look: ['GET', '/v1/elections/boss'],
  },
  'joining a group, after leaving it': { old: member('old'), newer: [leave], look: ['GET', '/v1/groups/team'] },
  'the value of a member, after a newer one': {
    before: [member('first')],
    old: member('old'),
    newer: [member('new')],
    look: ['GET', '/v1/groups/team'],
  },
  'leaving a group, after joining it again': {
    before: [member('first')],
    old: leave,
    newer: [leave, member('again')],
    look: ['GET', '/v1/groups/team'],
  },
  'entering a double barrier, after leaving it': {
    old: ['POST', '/v1/double-barriers/start/enter', { size: 2 }],
    newer: [['POST', '/v1/double-barriers/start/leave', {}]],
    look: ['GET', '/v1/double-barriers/start'],
  },
  'raising a barrier, after it was lifted': { old: raise, newer: [lift], look: ['GET', '/v1/barriers/gate'] },
  'raising a barrier, after it was raised and lifted': {
    old: raise,
    newer: [raise, lift],
    look: ['GET', '/v1/barriers/gate'],
  },
  'lifting a barrier, after it was raised': {
    before: [raise],
    old: lift,
    newer: [raise],
    look: ['GET', '/v1/barriers/gate'],
  },
  'lifting a barrier, after it was lifted and raised': {
    before: [raise],
    old: lift,
    newer: [lift, raise],
    look: ['GET', '/v1/barriers/gate'],
  },
  'a value, after a newer one': { old: key('old'), newer: [key('new')], look: ['GET', '/v1/config/key'] },
  'a value over another one, after a newer one': {
    before: [key('first')],
    old: key('old'),
    newer: [key('new')],
    look: ['GET', '/v1/config/key'],
  },
  'deleting a key, after it was put': {
    before: [key('first')],
    old: ['DELETE', '/v1/config/key'],
    newer: [key('new')],
    look: ['GET', '/v1/config/key'],
  },
  'a batch of keys, after a newer value': {
    before: [key('first')],
    old: ['POST', '/v1/config', { operations: [{ put: 'key', value: { is: 'old' } }] }],
    newer: [key('new')],
    look: ['GET', '/v1/config/key'],
  },
  'setting a counter, after a newer value': {
    before: [counter(0)],
    old: counter(1),
    newer: [counter(2)],
    look: ['GET', '/v1/counters/hits'],
  },
  'setting a counter, after it was deleted and set again': {
    before: [counter(0)],
    old: counter(1),
    newer: [['DELETE', '/v1/counters/hits'], counter(2)],
    look: ['GET', '/v1/counters/hits'],
  },
  'the first addition to a counter, after it was set and deleted': {
    old: ['POST', '/v1/counters/hits/add', { by: 1 }],
    newer: [counter(2), ['DELETE', '/v1/counters/hits']],
    look: ['GET', '/v1/counters/hits'],
  },
  'deleting a counter, after it was set': {
    before: [counter(1)],
    old: ['DELETE', '/v1/counters/hits'],
    newer: [counter(2)],
    look: ['GET', '/v1/counters/hits'],
  },
  'the limit of a semaphore, after a newer one': {
    before: [permits(1)],
    old: permits(2),
    newer: [permits(3)],
    look: ['GET', '/v1/semaphores/seats'],
  },
  'the limit of a semaphore, after it was set to what it was': {
    before: [permits(1)],
    old: permits(2),
    newer: [permits(1)],
    look: ['GET', '/v1/semaphores/seats'],
  },
  'the configuration of a queue, after a newer one': {
    before: [queue(1)],
    old: queue(2),
    newer: [queue(3)],
    look: ['GET', '/v1/queues/work'],
  },
  'the configuration of a queue, after it was deleted and made anew': {
    before: [queue(1)],
    old: queue(2),
    newer: [deleteQueue, queue(3), push('precious')],
    look: ['GET', '/v1/queues/work'],
  },
  'making a queue, after it was made and deleted': {
    old: queue(1),
    newer: [queue(2), deleteQueue],
    look: ['GET', '/v1/queues'],
  },
  'making a queue, after it was deleted': { old: queue(1), newer: [deleteQueue], look: ['GET', '/v1/queues'] },
  'the first push to a queue, after it was made and deleted': {
    old: push(1),
    newer: [queue(2), deleteQueue],
    look: ['GET', '/v1/queues'],
  },
  'deleting a queue, after it was deleted and made anew': {
    before: [queue(1)],
    old: deleteQueue,
    newer: [deleteQueue, queue(2)],
    look: ['GET', '/v1/queues/work'],
  },
  'releasing a lock, after it was released and taken again': {
    before: [acquire],
    old: release,
    newer: [release, acquire],
    look: ['GET', '/v1/locks/door'],
  },
  'ending a lease, after it was heartbeated and took a lock': {
    old: end,
    newer: [['POST', '/v1/leases/self/heartbeat'], acquire],
    look: ['GET', '/v1/locks/door'],
  },
  'ending a lease with a lock-delay, after it took another lock': {
    before: [['POST', '/v1/locks/cellar/acquire', { lockDelayMs: 60_000 }]],
    old: end,
    newer: [acquire],
    look: ['GET', '/v1/locks/cellar'],
  },
  'a push': { before: [push(1)], old: push(2), look: ['GET', '/v1/queues/work'] },
  'a purge, after a push': {
    before: [push(1)],
    old: ['POST', '/v1/queues/work/purge', {}],
    newer: [push(2)],
    look: ['GET', '/v1/queues/work'],
  },
  'deleting a queue, after a push': {
    before: [push(1)],
    old: ['DELETE', '/v1/queues/work?force=true'],
    newer: [push(2)],
    look: ['GET', '/v1/queues/work'],
  },
  'a transaction': {
    old: ['POST', '/v1/transactions', { participants: ['p'], deadlineMs: 60_000 }],
    look: ['GET', '/v1/transactions'],
  },
  'failing an attempt at a run, after it was asked for again': {
    before: [startRun],
    old: ({ fencingToken }) => [
      'POST',
      '/v1/runs/report/finish',
      { occurrence: 'one', outcome: 'failed', fencingToken },
    ],
    newer: [startRun],
    look: ['GET', '/v1/runs/report'],
  },
  'releasing a reservation, after it was extended by less than it has': {
    before: [['POST', '/v1/locks/door/reserve', { owner: 'me', reason: 'upkeep', forMs: 60_000 }]],
    old: ({ reservationToken }) => ['POST', '/v1/locks/door/reservation/release', { reservationToken }],
    newer: [
      ({ reservationToken }) => ['POST', '/v1/locks/door/reservation/extend', { reservationToken, forMs: 1_000 }],
    ],
    look: ['GET', '/v1/locks/door'],
  },
  'revoking a hold': {
    before: [acquire],
    old: ['POST', '/v1/locks/door/revoke', { graceMs: 0 }],
    look: ['GET', '/v1/locks/door'],
  },
};

/** A replica behind a proxy, one beside it, and a lease that both have used. */
async function startScene() {
  const root = freshRoot();
  const cuttable = await startCuttable({ root });
  const b = await startReplica({ root });
  const lease = await leaseFor(cuttable.replica, { ttlMs: 20_000 });
  return {
    a: cuttable.replica,
    proxy: cuttable.proxy,
    b,
    lease,
    async [Symbol.asyncDispose]() {
      await b[Symbol.asyncDispose]();
      await cuttable[Symbol.asyncDispose]();
    },
  };
}

function optionsOf(lease: LeaseHandle, [, path, body]: Ask): CallOptions {
  const isOfLease =
    !/^\/v1\/(config|barriers|counters|queues|transactions)/.test(path) &&
    !/\/(revoke|reserve|reservation\/\w+)$/.test(path);
  return { ...(body === undefined ? {} : { body }), ...(isOfLease ? { leaseToken: lease.leaseToken } : {}) };
}

async function ask(client: Client, lease: LeaseHandle, asked: Ask): Promise<unknown> {
  const [method, path, , status] = asked;
  return (await client.expect(status ?? [200, 201, 204], method, path, optionsOf(lease, asked))) as unknown;
}

function stepOf(step: Step, given: Record<string, unknown>): Ask {
  return typeof step === 'function' ? step(given) : step;
}

/** @returns the first answer */
async function before(
  { b, lease }: { b: Replica; lease: LeaseHandle },
  scenario: Scenario,
): Promise<Record<string, unknown>> {
  const answers: unknown[] = [];
  for (const one of scenario.before ?? []) answers.push(await ask(b, lease, one));
  return (answers[0] ?? {}) as Record<string, unknown>;
}

/** Asks, has the connection end when `sent`, and comes back when the replica knows that. */
async function giveUp(a: Replica, lease: LeaseHandle, asked: Ask, sent: () => Promise<unknown>): Promise<void> {
  const leaving = new AbortController();
  const [method, path] = asked;
  const answered = a.call(method, path, { ...optionsOf(lease, asked), signal: leaving.signal }).catch(() => undefined);
  await eventually('it has arrived', async () => (await inFlight(a)) === 1);
  await sent();
  leaving.abort();
  expect(await answered, 'it was not answered before it was given up').toBeUndefined();
  // What it reads from this connection it reads behind the end of that one.
  await a.call('GET', '/healthz');
}

function inFlight(a: Replica): Promise<number> {
  return a.metric('postern_http_requests_in_flight');
}

async function compare(
  { a, b, lease, given }: { a: Replica; b: Replica; lease: LeaseHandle; given: Record<string, unknown> },
  scenario: Scenario,
  proxy: TcpProxy,
): Promise<void> {
  for (const one of scenario.newer ?? []) await ask(b, lease, stepOf(one, given));
  const then = await ask(b, lease, scenario.look);
  proxy.heal();
  await eventually('the replica has ended the request', async () => (await inFlight(a)) === 0);
  // It reaches ZooKeeper: what it had to send has been sent.
  await a.expect([200, 201], 'PUT', '/v1/barriers/end');
  expect(await ask(b, lease, scenario.look)).toEqual(then);
}

/** Written by the replica's own session: what was sent is not refused because the lease has moved. */
const SENT = [
  'raising a barrier, after it was raised and lifted',
  'raising a barrier, after it was lifted',
  'lifting a barrier, after it was raised',
  'lifting a barrier, after it was lifted and raised',
  'a value, after a newer one',
  'a value over another one, after a newer one',
  'deleting a key, after it was put',
  'a batch of keys, after a newer value',
  'setting a counter, after a newer value',
  'setting a counter, after it was deleted and set again',
  'the first addition to a counter, after it was set and deleted',
  'deleting a counter, after it was set',
  'the limit of a semaphore, after a newer one',
  'the limit of a semaphore, after it was set to what it was',
  'the configuration of a queue, after a newer one',
  'the configuration of a queue, after it was deleted and made anew',
  'making a queue, after it was made and deleted',
  'making a queue, after it was deleted',
  'the first push to a queue, after it was made and deleted',
  'deleting a queue, after it was deleted and made anew',
  'failing an attempt at a run, after it was asked for again',
  'releasing a reservation, after it was extended by less than it has',
];

/** More than what a reading takes, or a ping: a write. */
const WRITE_BYTES = 60;

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  test(`what waited for a connection and was given up is not done: ${name} (C35)`, async () => {
    await using scene = await startScene();
    const { a, proxy, lease } = scene;
    const given = await before(scene, scenario);
    proxy.refuse();
    proxy.cut();
    await giveUp(a, lease, stepOf(scenario.old, given), () => Promise.resolve());
    await compare({ ...scene, given }, scenario, proxy);
  });

  test(`what waited for an answer and was given up does not go on: ${name} (C35)`, async () => {
    await using scene = await startScene();
    const { a, proxy, lease } = scene;
    const given = await before(scene, scenario);
    await a.call('GET', '/v1/leases/self', { leaseToken: lease.leaseToken });
    proxy.suspend();
    await giveUp(a, lease, stepOf(scenario.old, given), () =>
      eventually('it was sent', () => proxy.heldBytes('toZooKeeper') > 0),
    );
    await compare({ ...scene, given }, scenario, proxy);
  });
}

for (const name of SENT) {
  test(`what was sent and held back until something newer was done is refused: ${name} (C35)`, async () => {
    await using scene = await startScene();
    const { a, proxy, lease } = scene;
    const scenario = SCENARIOS[name] as Scenario;
    const given = await before(scene, scenario);
    // What it reads first it is answered; the write behind that is held back.
    beforeWrite(a, () => proxy.pause('toZooKeeper'));
    await giveUp(a, lease, stepOf(scenario.old, given), () =>
      eventually('it has written', () => proxy.heldBytes('toZooKeeper') > WRITE_BYTES),
    );
    await compare({ ...scene, given }, scenario, proxy);
  });
}
