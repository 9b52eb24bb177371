/** The holder of a write lock becomes a reader, and no other writer comes in between. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { Witness } from '../../../support/scene.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';

const TTL_MS = 10_000;
const WRITE = { mode: 'write', downgradable: true };
const READ = { mode: 'read' };

interface Held {
  holdId: string;
  fencingToken: number;
}

let pair: Awaited<ReturnType<typeof startPair>>;
let witness: Witness;
beforeAll(async () => {
  pair = await startPair();
  witness = await Witness.start(pair.root);
});
afterAll(async () => {
  await witness[Symbol.asyncDispose]();
  await pair[Symbol.asyncDispose]();
});

function acquire(replica: Replica, name: string, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', `/v1/rwlocks/${name}/acquire`, { body, leaseToken: lease.leaseToken });
}

function release(name: string, { leaseToken }: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return pair.b.call('POST', `/v1/rwlocks/${name}/release`, { body, leaseToken });
}

function leases(count: number): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, () => pair.a.createLease({ ttlMs: TTL_MS })));
}

async function untilWaiting(name: string, count: number): Promise<void> {
  await eventually(`${count} wait for ${name}`, async () => {
    const { waiterCount } = (await pair.a.expect(200, 'GET', `/v1/rwlocks/${name}`)) as { waiterCount: number };
    return waiterCount === count;
  });
}

async function nodesOf(name: string): Promise<string[]> {
  return (await witness.control.getChildren(witness.layout.line('rwlock', 'default', name))).children;
}

test('lets readers directly behind in, and no writer, at both replicas; the tokens of those behind are higher', async () => {
  const [holder, reader, writer] = (await leases(3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
  const held = (await acquire(pair.a, 'book', holder, WRITE)).body as Held;
  let written: Reply | undefined;
  const reading = acquire(pair.b, 'book', reader, { mode: 'read', waitMs: 20_000 });
  await untilWaiting('book', 1);
  const writing = acquire(pair.b, 'book', writer, { mode: 'write', waitMs: 20_000 }).then((reply) => (written = reply));
  await untilWaiting('book', 2);
  const down = await acquire(pair.a, 'book', holder, READ);
  expect(down).toMatchObject({ status: 200, body: { fencingToken: held.fencingToken, alreadyHeld: true } });
  expect((down.body as Held).holdId).not.toBe(held.holdId);
  expect((await reading).status).toBe(200);
  for (const replica of [pair.a, pair.b])
    expect(await replica.expect(200, 'GET', '/v1/rwlocks/book')).toMatchObject({
      holders: [{ mode: 'read', fencingToken: held.fencingToken }, { mode: 'read' }],
      waiterCount: 1,
    });
  await release('book', reader);
  await throughout('the writer waits for the reader that wrote', () => written === undefined);
  expect((await release('book', holder, { holdId: held.holdId })).status).toBe(409);
  expect((await release('book', holder, { holdId: (down.body as Held).holdId })).status).toBe(204);
  const next = (await writing).body as Held;
  expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  await release('book', writer);
  expect(await nodesOf('book')).toEqual([]);
});

test('is answered the same when it is repeated, at another replica; the write that came before it is not', async () => {
  const [lease] = (await leases(1)) as [LeaseHandle];
  const held = (await acquire(pair.a, 'again', lease, WRITE)).body as Held;
  expect((await acquire(pair.b, 'again', lease, WRITE)).body).toMatchObject({ holdId: held.holdId, alreadyHeld: true });
  const shown = (await pair.a.showLease(lease)).body as { holds: unknown[] };
  expect(shown.holds).toHaveLength(1);
  const down = (await acquire(pair.a, 'again', lease, READ)).body as Held;
  for (const replica of [pair.b, pair.a])
    expect((await acquire(replica, 'again', lease, READ)).body).toMatchObject({
      holdId: down.holdId,
      fencingToken: held.fencingToken,
      alreadyHeld: true,
    });
  expect(await acquire(pair.b, 'again', lease, WRITE)).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect(await nodesOf('again')).toHaveLength(1);
});

test('is refused without downgradable, and while the writer waits; both places stay as they are', async () => {
  const [holder, waiter] = (await leases(2)) as [LeaseHandle, LeaseHandle];
  await acquire(pair.a, 'refused', holder, { mode: 'write' });
  expect((await acquire(pair.b, 'refused', holder, READ)).status).toBe(409);
  expect((await acquire(pair.a, 'refused', waiter, { ...WRITE, keepPlace: true })).status).toBe(202);
  expect((await acquire(pair.b, 'refused', waiter, READ)).status).toBe(409);
  expect(await nodesOf('refused')).toHaveLength(3);
  const bad = await acquire(pair.a, 'refused', holder, { mode: 'read', downgradable: true });
  expect(bad).toMatchObject({ status: 422, body: { field: 'downgradable' } });
});

test('leaves no place behind a write hold or wait that ends without it: released, waited in vain, revoked', async () => {
  const [holder, waiter] = (await leases(2)) as [LeaseHandle, LeaseHandle];
  const held = (await acquire(pair.a, 'ended', holder, { ...WRITE, lockDelayMs: 1_000 })).body as Held;
  expect((await acquire(pair.a, 'ended', waiter, { ...WRITE, waitMs: 1 })).status).toBe(409);
  expect(await nodesOf('ended')).toHaveLength(2);
  expect((await release('ended', holder, { holdId: held.holdId })).status).toBe(204);
  expect(await nodesOf('ended')).toEqual([]);
  const second = (await acquire(pair.b, 'ended', holder, WRITE)).body as Held;
  const revoked = await pair.a.call('POST', '/v1/rwlocks/ended/revoke', {
    body: { holdId: second.holdId, graceMs: 0 },
  });
  expect(revoked.status).toBeLessThan(300);
  await eventually('nobody stands in it', async () => (await nodesOf('ended')).length === 0);
});

test('moves the mark of a lock-delay: a release of the reader ends it, and nobody is delayed', async () => {
  const [holder, writer] = (await leases(2)) as [LeaseHandle, LeaseHandle];
  await acquire(pair.a, 'delayed', holder, { ...WRITE, lockDelayMs: 60_000 });
  expect((await acquire(pair.b, 'delayed', holder, READ)).status).toBe(200);
  await release('delayed', holder);
  expect((await acquire(pair.b, 'delayed', writer, { mode: 'write' })).status).toBe(200);
});
