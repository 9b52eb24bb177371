/**
 * Claims of one turn are made at the same time, by the sessions of their leases: one that fails is not overtaken by
 * those behind it.
 */
import { expect, test } from 'vitest';
import { LeaseExpiredError } from '../../../../src/errors.js';
import { bodiesOf, pop, pushBodies } from '../client.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { expireSession, startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { rounds } from '../../../support/scene.js';

const TTL_MS = 20_000;

async function untilWaiting(replica: Replica, count: number): Promise<void> {
  await eventually('they wait', async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === count);
}

/** The replica does not reach the session of this lease any more, as if the server that it is attached to had died. */
function cutOff({ gateway }: Replica, { leaseId }: LeaseHandle): Disposable & { reached: () => void } {
  const { sessions } = gateway.context.leases;
  const use = sessions.useRepeatedly.bind(sessions);
  let reached = (): void => undefined;
  const gate = new Promise<void>((resolve) => (reached = resolve));
  sessions.useRepeatedly = async (lease, deadline, work) => {
    if (lease.leaseId === leaseId) await gate;
    return use(lease, deadline, work);
  };
  const reachable = (): void => {
    sessions.useRepeatedly = use;
    reached();
  };
  return { reached: reachable, [Symbol.dispose]: reachable };
}

interface Waiting {
  lease: LeaseHandle;
  reply: Promise<Reply>;
}

/** Leases that wait at one replica, which has the turn, each for one message, the first to be served first. */
async function waitAt(pair: Pair, replica: Replica, count: number): Promise<Waiting[]> {
  await pushBodies(pair.b, 'work', [0]);
  expect(bodiesOf(await pop(replica, 'work'))).toEqual([0]);
  const waiting: Waiting[] = [];
  for (let i = 0; i < count; i += 1) {
    const lease = await pair.b.createLease({ ttlMs: TTL_MS });
    const { leaseToken } = lease;
    const reply = replica.call('POST', '/v1/queues/work/claim', { body: { waitMs: 20_000 }, leaseToken });
    waiting.push({ lease, reply });
    await untilWaiting(replica, i + 1);
  }
  return waiting;
}

async function itemsOf({ reply }: Waiting): Promise<[body: unknown, deliveries: number][]> {
  const { status, body } = await reply;
  expect(status).toBe(200);
  return (body as { items: { body: unknown; deliveries: number }[] }).items.map((item) => [item.body, item.deliveries]);
}

test('a message whose claim does not get through goes to the next lease, and is not overtaken by what is behind it', async () => {
  await using pair = await startPair();
  const [first, second, third] = (await waitAt(pair, pair.a, 3)) as [Waiting, Waiting, Waiting];
  using cut = cutOff(pair.a, first.lease);
  await pushBodies(pair.b, 'work', [1, 2, 3]);
  // Whose claim fails first, of those behind the one that does not get through, is served first: that is left to
  // chance.
  expect((await Promise.all([second, third].map(itemsOf))).flat().sort()).toEqual([
    [1, 1],
    [2, 1],
  ]);
  cut.reached();
  expect(await itemsOf(first)).toEqual([[3, 1]]);
});

test('the same when the replica is not the only one that takes', async () => {
  await using pair = await startPair();
  const [first, second] = (await waitAt(pair, pair.a, 2)) as [Waiting, Waiting];
  using cut = cutOff(pair.a, first.lease);
  await pushBodies(pair.b, 'work', [1, 2, 3, 4]);
  const popped = [
    ...(await pop(pair.b, 'work', { waitMs: 10_000 })),
    ...(await pop(pair.b, 'work', { waitMs: 10_000 })),
  ];
  const [[body] = []] = await itemsOf(second);
  cut.reached();
  const [[last] = []] = await itemsOf(first);
  // In whichever order they were served: each got what was first then.
  expect([...bodiesOf(popped), body, last].sort()).toEqual([1, 2, 3, 4]);
  expect(bodiesOf(popped)).toEqual([...bodiesOf(popped)].sort());
});

test('nor by one that is popped', async () => {
  await using pair = await startPair();
  const [first] = (await waitAt(pair, pair.a, 1)) as [Waiting];
  using cut = cutOff(pair.a, first.lease);
  const popping = pop(pair.a, 'work', { waitMs: 20_000 });
  await untilWaiting(pair.a, 2);
  await pushBodies(pair.b, 'work', [1, 2]);
  expect(await popping).toMatchObject([{ body: 1, deliveries: 1 }]);
  cut.reached();
  expect(await itemsOf(first)).toEqual([[2, 1]]);
});

test('a message that is meant for a lease which has just ended goes to the next one, before what is behind it', async () => {
  await using pair = await startPair();
  for (let round = 0; round < rounds(5); round += 1) {
    const [first, second, third] = (await waitAt(pair, pair.a, 3)) as [Waiting, Waiting, Waiting];
    await expireSession(pair.b, first.lease.leaseId);
    await pushBodies(pair.b, 'work', [1, 2]);
    expect((await first.reply).status).toBe(410);
    expect(await itemsOf(second)).toEqual([[1, 1]]);
    expect(await itemsOf(third)).toEqual([[2, 1]]);
    for (const { lease } of [second, third]) await pair.b.endLease(lease);
    await pair.b.expect(204, 'DELETE', '/v1/queues/work?force=true');
  }
});

test('nor by one that was found before the claim failed', async () => {
  await using pair = await startPair();
  const [first, second] = (await waitAt(pair, pair.a, 2)) as [Waiting, Waiting];
  const { control, leases } = pair.a.gateway.context;
  const use = leases.sessions.useRepeatedly.bind(leases.sessions);
  let fail = (): void => undefined;
  const gate = new Promise<never>((_, reject) => (fail = () => reject(new LeaseExpiredError())));
  gate.catch(() => undefined); // it may come before anybody waits for it
  const multiRead = control.multiRead.bind(control);
  leases.sessions.useRepeatedly = async (lease, deadline, work) => {
    if (lease.leaseId !== first.lease.leaseId) return use(lease, deadline, work);
    control.multiRead = async (operations, ...more) => {
      // Not the look for a claim that is late.
      if (operations.some(({ path }) => path.endsWith('/c'))) return multiRead(operations, ...more);
      control.multiRead = multiRead;
      const read = await multiRead(operations, ...more);
      // Before it is assigned the connection is lost for a moment, and the claim fails.
      Object.defineProperty(control, 'connected', { configurable: true, value: false });
      control.whenConnected = async () => {
        Reflect.deleteProperty(control, 'connected');
        Reflect.deleteProperty(control, 'whenConnected');
        fail();
        expect((await first.reply).status).toBe(410);
      };
      return read;
    };
    await pushBodies(pair.b, 'work', [2]);
    return gate;
  };
  await pushBodies(pair.b, 'work', [1]);
  expect(await itemsOf(second)).toEqual([[1, 1]]);
});
