/** A downgrade that meets faults, and others who want the hold: one hold, and nothing behind it that nobody knows. */
import { afterEach, beforeAll, afterAll, expect, test, vi } from 'vitest';
import { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import { OPCODE, type MultiOperation } from '../../../../src/zookeeper/operations.js';
import { eventually, throughout } from '../../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { keptAlive, startCuttable, Witness, type Cuttable } from '../../../support/scene.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';

const TTL_MS = 20_000;
const WRITE = { mode: 'write', downgradable: true };
/** Its place is made before the line is looked at. */
const READ = { mode: 'read', waitMs: 20_000 };

interface Held {
  holdId: string;
  fencingToken: number;
}

const root = freshRoot();
let cuttable: Cuttable;
let a: Replica;
let b: Replica;
let witness: Witness;
beforeAll(async () => {
  [cuttable, b, witness] = await Promise.all([
    startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '3000' } }),
    startReplica({ root, settings: { POSTERN_MAX_HOLDS_PER_LEASE: '8' } }),
    Witness.start(root),
  ]);
  a = cuttable.replica;
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await Promise.all([witness[Symbol.asyncDispose](), b[Symbol.asyncDispose](), cuttable[Symbol.asyncDispose]()]);
});

function acquire(replica: Replica, name: string, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', `/v1/rwlocks/${name}/acquire`, { body, leaseToken: lease.leaseToken });
}

function release(name: string, { leaseToken }: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return b.call('POST', `/v1/rwlocks/${name}/release`, { body, leaseToken });
}

function lease(): Promise<LeaseHandle> {
  return b.createLease({ ttlMs: TTL_MS });
}

async function written(name: string, holder: LeaseHandle, replica = a): Promise<Held> {
  const reply = await acquire(replica, name, holder, WRITE);
  expect(reply.status).toBe(200);
  return reply.body as Held;
}

function directory(name: string): string {
  return witness.layout.line('rwlock', 'default', name);
}

async function nodesOf(name: string): Promise<string[]> {
  await witness.control.sync(directory(name));
  return (await witness.control.getChildren(directory(name))).children.sort();
}

/** Lets `meanwhile` happen once, when a request is about to send a transaction like that on its lease's session. */
function beforeTransaction(matches: (items: readonly MultiOperation[]) => boolean, meanwhile: () => Promise<unknown>) {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called below with the session that it belongs to
  const multi = LeaseSession.prototype.multi;
  let left = 1;
  vi.spyOn(LeaseSession.prototype, 'multi').mockImplementation(async function (this: LeaseSession, items, deadline) {
    if (left > 0 && matches(items)) {
      left -= 1;
      await meanwhile();
    }
    return multi.call(this, items, deadline);
  });
  return () => expect(left).toBe(0);
}

function isDowngrade(items: readonly MultiOperation[]): boolean {
  return items.some(({ type }) => type === 'setData') && items.some(({ type }) => type === 'delete');
}

test.each(['loseReply', 'loseRequest'] as const)(
  '%s of the downgrade: done once, and no writer comes in',
  async (fault) => {
    const [holder, writer] = [await lease(), await lease()];
    const held = await written(fault, holder);
    let next: Reply | undefined;
    const writing = acquire(b, fault, writer, { mode: 'write', waitMs: 20_000 }).then((reply) => (next = reply));
    await eventually('the writer stands in line', async () => (await nodesOf(fault)).length === 3);
    const lost = cuttable.proxy[fault](OPCODE.multi);
    const down = await acquire(a, fault, holder, { mode: 'read' });
    await lost;
    expect(down).toMatchObject({ status: 200, body: { fencingToken: held.fencingToken, alreadyHeld: true } });
    for (const replica of [b, a])
      expect((await acquire(replica, fault, holder, READ)).body).toMatchObject({
        holdId: (down.body as Held).holdId,
        alreadyHeld: true,
      });
    expect(await nodesOf(fault)).toHaveLength(2);
    await throughout('the writer waits', () => next === undefined);
    expect((await release(fault, holder, { holdId: (down.body as Held).holdId })).status).toBe(204);
    expect(((await writing).body as Held).fencingToken).toBeGreaterThan(held.fencingToken);
  },
);

test('a downgrade that is done, and whose replica hears no more of it, stays; the other replica answers it', async () => {
  const holder = await lease();
  await using _ = keptAlive(b, [holder], TTL_MS);
  const held = await written('unheard', holder);
  const cut = cuttable.proxy.loseReply(OPCODE.multi).then(() => cuttable.proxy.refuse());
  expect(await acquire(a, 'unheard', holder, { mode: 'read' })).toMatchObject({
    status: 503,
    body: { code: 'outcome-unknown' },
  });
  await cut;
  cuttable.proxy.accept();
  await a.untilReady();
  await eventually('what was left is cleaned up', () => a.gateway.context.cleanup.pending === 0);
  expect((await acquire(b, 'unheard', holder, READ)).body).toMatchObject({
    fencingToken: held.fencingToken,
    alreadyHeld: true,
  });
  expect(await nodesOf('unheard')).toHaveLength(1);
});

test('blind tries leave nothing behind: of the downgrade itself, and of a write whose replica was killed', async () => {
  const holder = await lease();
  const held = await written('blind', holder);
  const [guid] = /[0-9a-f-]{36}/.exec((await nodesOf('blind'))[0] as string) as unknown as [string];
  for (const prefix of ['__WRIT__', '__READ__'])
    await witness.control.create(`${directory('blind')}/_c_${guid}-${prefix}`, undefined, {
      mode: 'ephemeral-sequential',
    });
  const down = await acquire(a, 'blind', holder, READ);
  expect(down.body).toMatchObject({ fencingToken: held.fencingToken, alreadyHeld: true });
  expect(await nodesOf('blind')).toHaveLength(1);
});

test('a write that is repeated blindly, and downgraded before its duplicate is gone, is refused and leaves nothing', async () => {
  const holder = await lease();
  const held = await written('raced', holder);
  const met = beforeTransaction(
    ([check, remove]) => check?.type === 'check' && remove?.type === 'delete' && remove.path.includes('__WRIT__'),
    () => acquire(b, 'raced', holder, { mode: 'read' }),
  );
  expect((await acquire(a, 'raced', holder, { ...WRITE, waitMs: 20_000 })).status).toBe(409);
  met();
  expect(await nodesOf('raced')).toHaveLength(1);
  expect((await acquire(b, 'raced', holder, { mode: 'read' })).body).toMatchObject({
    fencingToken: held.fencingToken,
    alreadyHeld: true,
  });
});

test('a write that is repeated between look and downgrade does not lose it', async () => {
  const holder = await lease();
  const held = await written('between', holder);
  const met = beforeTransaction(isDowngrade, () => acquire(b, 'between', holder, WRITE));
  expect((await acquire(a, 'between', holder, READ)).body).toMatchObject({ fencingToken: held.fencingToken });
  met();
  expect(await nodesOf('between')).toHaveLength(1);
});

test('a hold that is asked for is not downgraded, also when it is asked for at the last moment', async () => {
  const holder = await lease();
  const { holdId } = await written('asked', holder);
  const revoke = (graceMs: number): Promise<unknown> =>
    b.expect(200, 'POST', '/v1/rwlocks/asked/revoke', { body: { holdId, graceMs } });
  const met = beforeTransaction(isDowngrade, () => revoke(60_000));
  const refused = await acquire(a, 'asked', holder, READ);
  met();
  expect(refused).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect((refused.body as { detail: string }).detail).toContain('asked for');
  expect((await acquire(b, 'asked', holder, { mode: 'read' })).status).toBe(409);
  expect(await nodesOf('asked')).toHaveLength(2);
  await revoke(0);
  await eventually('both places are gone', async () => (await nodesOf('asked')).length === 0);
});

test.each([
  ['at once', false],
  ['after the lease was told of it', true],
] as const)(
  "released %s, a writer that Curator's Revoker has written over takes its reader's place along",
  async (_, isTold) => {
    const name = `overwritten-${isTold}`;
    const holder = await lease();
    const reply = await acquire(b, name, holder, { ...WRITE, lockDelayMs: 60_000 });
    const { holdId } = reply.body as Held;
    for (const node of await nodesOf(name))
      await witness.control.setData(`${directory(name)}/${node}`, Buffer.from('__REVOKE__'));
    if (isTold) await b.showLease(holder);
    expect((await release(name, holder, { holdId })).status).toBe(204);
    expect(await nodesOf(name)).toEqual([]);
    // Nor is anybody delayed: it was not lost.
    expect((await acquire(a, name, await lease(), { mode: 'write', waitMs: 10_000 })).status).toBe(200);
  },
);

test('is refused where a client of Curator has asked for the reserved place', async () => {
  const holder = await lease();
  await written('asked-behind', holder);
  const reader = (await nodesOf('asked-behind')).find((node) => node.includes('__READ__')) ?? '';
  await witness.control.setData(`${directory('asked-behind')}/${reader}`, Buffer.from('__REVOKE__'));
  expect(await acquire(a, 'asked-behind', holder, READ)).toMatchObject({ status: 409, body: { code: 'conflict' } });
  expect((await release('asked-behind', holder)).status).toBe(204);
  expect(await nodesOf('asked-behind')).toEqual([]);
});

test('a kept place keeps its reader, and both end with their lease', async () => {
  const [holder, waiter] = [await lease(), await lease()];
  await written('kept', holder);
  expect((await acquire(a, 'kept', waiter, { ...WRITE, keepPlace: true })).status).toBe(202);
  await b.endLease(holder);
  const held = (await acquire(b, 'kept', waiter, { ...WRITE, waitMs: 20_000 })).body as Held;
  expect(await nodesOf('kept')).toHaveLength(2);
  expect((await acquire(a, 'kept', waiter, READ)).body).toMatchObject({ fencingToken: held.fencingToken });
  await b.endLease(waiter);
  await eventually('nobody stands in it', async () => (await nodesOf('kept')).length === 0);
});

test('a lease with room for one more place is refused two, by the name of the limit, and nothing is left', async () => {
  const holder = await lease();
  for (let i = 0; i < 7; i += 1) await acquire(b, `room-${i}`, holder, { mode: 'read' });
  expect(await acquire(b, 'room', holder, WRITE)).toMatchObject({
    status: 409,
    body: { code: 'too-many-holds', limit: 'maxHoldsPerLease', maxHoldsPerLease: 8 },
  });
  expect((await acquire(b, 'room', holder, { mode: 'write' })).status).toBe(200);
  expect(await nodesOf('room')).toHaveLength(1);
});
