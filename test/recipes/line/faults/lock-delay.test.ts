/**
 * Lock-delays under faults: replicas that die, many that find the loss at once, places and data that are not what they
 * seem.
 */
import { expect, test } from 'vitest';
import { lockDelaysOf } from '../../../../src/leases/layout.js';
import { REVOKE_MESSAGE } from '../../../../src/recipes/line/contender.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { expireSession, spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { acquireDirectly, startCuttable, Witness, type Seen } from '../../../support/scene.js';

const TTL_MS = 20_000;
/** Of a lease that is to expire by itself. */
const SHORT_MS = scaled(2_000);
const DELAY_MS = scaled(5_000);
const LONG_DELAY_MS = 60_000;
/** No more than clocks that agree. */
const BEHIND_MS = 500;
/** A grant follows the end of a delay within this. */
const ON_TIME_MS = scaled(1_000);
/** Of a test that starts a process. */
const PROCESS_MS = timing.processMs + scaled(20_000);

interface Mark {
  holdId: string;
  version: number;
  mtime: number;
}

async function marks(witness: Witness, name: string): Promise<Mark[]> {
  const path = lockDelaysOf(witness.directory(name));
  await witness.control.sync(path);
  const { children } = await witness.control.getChildren(path).catch(() => ({ children: [] }));
  const stats = await Promise.all(children.map((holdId) => witness.control.exists(`${path}/${holdId}`)));
  return children.flatMap((holdId, i) => {
    const stat = stats[i];
    return stat === undefined ? [] : [{ holdId, version: stat.version, mtime: stat.mtime }];
  });
}

/** When the loss was found, as soon as somebody has. */
function found(witness: Witness, name: string): Promise<Mark> {
  return eventually('the loss is found', async () => (await marks(witness, name)).find(({ version }) => version === 1));
}

async function untilGranted(witness: Witness, name: string): Promise<Seen> {
  return eventually('somebody holds', async () => {
    const [head] = await witness.line(name);
    return head?.record?.state === 'granted' ? head : undefined;
  });
}

test(
  'a delay is continued when the replica that found the loss is killed: the repeated request is granted on time (C16)',
  { timeout: PROCESS_MS },
  async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    await using witness = await Witness.start(root);
    const [lost, first, second] = [
      await other.createLease({ ttlMs: TTL_MS }),
      await other.createLease({ ttlMs: TTL_MS }),
      await other.createLease({ ttlMs: TTL_MS }),
    ];
    await other.hold('killed', lost, { lockDelayMs: DELAY_MS });
    const cut = doomed.acquire('killed', first, { waitMs: TTL_MS, keepPlace: true }).catch(() => undefined);
    await other.untilWaiting('killed', 1);
    const behind = other.acquire('killed', second, { waitMs: TTL_MS });
    await other.untilWaiting('killed', 2);
    await expireSession(other, lost.leaseId);
    const { mtime } = await found(witness, 'killed');
    await doomed.kill();
    await cut;
    const again = other.acquire('killed', first, { waitMs: TTL_MS, keepPlace: true });
    const head = await untilGranted(witness, 'killed');
    expect(head.record?.leaseId).toBe(first.leaseId);
    expect(head.stat.mtime).toBeGreaterThanOrEqual(mtime + DELAY_MS);
    expect(head.stat.mtime).toBeLessThan(mtime + DELAY_MS + ON_TIME_MS);
    expect((await again).status).toBe(200);
    expect((await other.release('killed', first)).status).toBe(204);
    expect((await behind).status).toBe(200);
  },
);

test(
  'a delay that a killed replica waited for ends on time for the next in line (C16)',
  { timeout: PROCESS_MS },
  async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    await using witness = await Witness.start(root);
    const [lost, second] = [await other.createLease({ ttlMs: TTL_MS }), await other.createLease({ ttlMs: TTL_MS })];
    await other.hold('next', lost, { lockDelayMs: DELAY_MS });
    const first = await other.createLease({ ttlMs: SHORT_MS });
    const cut = doomed.acquire('next', first, { waitMs: TTL_MS }).catch(() => undefined);
    await other.untilWaiting('next', 1);
    const behind = other.acquire('next', second, { waitMs: TTL_MS });
    await other.untilWaiting('next', 2);
    await expireSession(other, lost.leaseId);
    const { mtime } = await found(witness, 'next');
    await doomed.kill(); // nobody keeps the first one's lease alive any more
    await cut;
    expect((await behind).status).toBe(200);
    const head = await untilGranted(witness, 'next');
    expect(head.record?.leaseId).toBe(second.leaseId);
    expect(head.stat.mtime).toBeGreaterThanOrEqual(mtime + DELAY_MS);
    expect(head.stat.mtime).toBeLessThan(mtime + DELAY_MS + ON_TIME_MS);
  },
);

test('a replica whose idea of the time is a little behind tells the same end as who found the loss (C16)', async () => {
  await using pair = await startPair();
  const lost = await pair.a.createLease({ ttlMs: TTL_MS });
  await pair.a.hold('told', lost, { lockDelayMs: LONG_DELAY_MS });
  await expireSession(pair.a, lost.leaseId);
  const told = await pair.a.showLock('told');
  const now = performance.now();
  pair.b.gateway.context.zooKeeperClock.observe(Date.now() - BEHIND_MS, now, now);
  expect(await pair.b.showLock('told')).toMatchObject({ lockedUntil: (told as { lockedUntil: string }).lockedUntil });
});

test('of many who find a loss at once all go by the same end, and nobody is granted before it (C16)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const lost = await pair.a.createLease({ ttlMs: TTL_MS });
  const many = await Promise.all(Array.from({ length: 24 }, () => pair.a.createLease({ ttlMs: TTL_MS })));
  await pair.a.hold('race', lost, { lockDelayMs: DELAY_MS });
  await expireSession(pair.b, lost.leaseId);
  const replicaOf = (i: number): typeof pair.a => (i % 2 === 0 ? pair.a : pair.b);
  const looks = await Promise.all(
    many.map(async (lease, i): Promise<string | undefined> => {
      if (i % 3 === 0) return ((await replicaOf(i).showLock('race')) as { lockedUntil?: string }).lockedUntil;
      const { status, body } = await replicaOf(i).acquire('race', lease, {
        requestId: 'look',
        waitMs: i % 3 === 1 ? 0 : 1,
      });
      expect(status).toBe(409);
      return (body as { lockedUntil?: string }).lockedUntil;
    }),
  );
  const [mark] = await marks(witness, 'race');
  expect(mark?.version).toBe(1);
  const end = (mark?.mtime ?? 0) + DELAY_MS;
  expect(new Set(looks)).toEqual(new Set([new Date(end).toISOString()]));
  const waits = many.map(async (lease, i) => {
    const reply = await replicaOf(i).acquire('race', lease, { requestId: 'wait', waitMs: TTL_MS });
    const [head] = await witness.line('race');
    expect(reply.status).toBe(200);
    expect(head?.record?.leaseId).toBe(lease.leaseId);
    const { mtime } = (head as Seen).stat;
    expect((await replicaOf(i + 1).release('race', lease, { requestId: 'wait' })).status).toBe(204);
    return mtime;
  });
  const granted = await Promise.all(waits);
  expect(Math.min(...granted)).toBeGreaterThanOrEqual(end);
  expect(await marks(witness, 'race')).toEqual([]);
});

test("a replica whose idea of the ensemble's clock is wrong ends no delay early (T9)", async () => {
  await using pair = await startPair();
  const lost = await pair.a.createLease({ ttlMs: TTL_MS });
  await pair.a.hold('clock', lost, { lockDelayMs: LONG_DELAY_MS });
  await expireSession(pair.b, lost.leaseId);
  const { lockedUntil } = (await pair.a.showLock('clock')) as { lockedUntil: string };
  const now = performance.now();
  pair.b.gateway.context.zooKeeperClock.observe(Date.parse(lockedUntil) + LONG_DELAY_MS, now, now);
  expect(await pair.b.showLock('clock')).toMatchObject({ lockedUntil });
  expect(await pair.a.showLock('clock')).toMatchObject({ lockedUntil });
});

test('one who lined up before delays were in use honours that of a later hold, of which its replica knows nothing (C16)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [first, middle, last] = [
    await pair.a.createLease({ ttlMs: TTL_MS }),
    await pair.a.createLease({ ttlMs: TTL_MS }),
    await pair.b.createLease({ ttlMs: TTL_MS }),
  ];
  const { holdId } = await pair.a.hold('unaware', first);
  const holding = pair.a.acquire('unaware', middle, { waitMs: TTL_MS, lockDelayMs: DELAY_MS });
  await pair.a.untilWaiting('unaware', 1);
  const waiting = pair.b.acquire('unaware', last, { waitMs: TTL_MS });
  await pair.a.untilWaiting('unaware', 2);
  expect((await pair.a.release('unaware', first, { holdId })).status).toBe(204);
  expect((await holding).status).toBe(200);
  await expireSession(pair.a, middle.leaseId);
  const { mtime } = await found(witness, 'unaware');
  expect((await waiting).status).toBe(200);
  expect((await untilGranted(witness, 'unaware')).stat.mtime).toBeGreaterThanOrEqual(mtime + DELAY_MS);
});

test('a place that says `granted` while a delay runs is no hold: a killed replica may have left it so (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [lost, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('residue', lost, { lockDelayMs: DELAY_MS });
  await expireSession(pair.b, lost.leaseId);
  expect((await pair.a.acquire('residue', me, { keepPlace: true })).status).toBe(202);
  await witness.rewrite((await witness.line('residue'))[0] as Seen, { state: 'granted' });
  expect((await pair.b.acquire('residue', me, { keepPlace: true })).status).toBe(202);
  const { mtime } = await found(witness, 'residue');
  const reply = await pair.b.acquire('residue', me, { waitMs: TTL_MS });
  expect(reply.body).toMatchObject({ held: true, alreadyHeld: false });
  expect((await untilGranted(witness, 'residue')).stat.mtime).toBeGreaterThanOrEqual(mtime + DELAY_MS);
});

test('a grant that could not be delivered is taken back with its mark, also where the place is kept (C1)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  for (const keepPlace of [false, true]) {
    const granted = await acquireDirectly(pair.a, lease, 'undelivered', { lockDelayMs: LONG_DELAY_MS, keepPlace });
    if (!granted.held) throw new Error('it was free');
    expect(await marks(witness, 'undelivered')).toHaveLength(1);
    await granted.giveBack();
    expect(await marks(witness, 'undelivered')).toEqual([]);
    expect(await witness.line('undelivered')).toHaveLength(keepPlace ? 1 : 0);
  }
  await expireSession(pair.a, lease.leaseId);
  await pair.b.hold('undelivered', await pair.b.createLease({ ttlMs: TTL_MS }));
});

test('a hold whose data another client has written over is released, broken or ended with its mark', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const ends: ((lease: LeaseHandle) => Promise<unknown>)[] = [
    (lease) => pair.b.release('overwritten', lease),
    (lease) => pair.b.endLease(lease),
    () => pair.b.expect(200, 'POST', '/v1/locks/overwritten/revoke', { body: { graceMs: 0 } }),
  ];
  for (const end of ends) {
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pair.a.hold('overwritten', lease, { lockDelayMs: LONG_DELAY_MS });
    const [held] = await witness.line('overwritten');
    await witness.control.setData((held as Seen).path, REVOKE_MESSAGE);
    if (end === ends[2]) await pair.a.showLease(lease); // told, and readable again
    await end(lease);
    await eventually('nobody stands there', async () => (await witness.line('overwritten')).length === 0);
    expect(await marks(witness, 'overwritten')).toEqual([]);
  }
});

test('a newcomer whose connection is lost while it looks for delays keeps its place, and is granted', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const [before, me] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('door', before, { lockDelayMs: DELAY_MS });
  await b.release('door', before);
  await a.hold('another', me); // its session is attached, and counted
  const lost = proxy.loseReply(OPCODE.sync);
  const acquiring = a.acquire('door', me, { waitMs: scaled(10_000) });
  await lost;
  expect((await acquiring).body).toMatchObject({ held: true });
});
