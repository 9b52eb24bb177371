/** Locks by priority: what becomes of places that are left, taken over, or released as their turn comes (C94). */
import { describe, expect, test } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { decodeRecord, nodePrefix, type ContenderRecord } from '../../../../src/recipes/line/contender.js';
import { ownDirectory } from '../../../../src/recipes/line/directory.js';
import type { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import { eventually } from '../../../support/eventually.js';
import { onSessions } from '../../../support/lease-work.js';
import { leaseBehind, Witness } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { atTurn } from './at-turn.js';

const NAME = 'places';
const WAIT = { waitMs: 50_000 };

function leaseFor(replica: Replica): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000 });
}

/** Makes the lock one by priority, and leaves it free. */
async function agree(replica: Replica): Promise<void> {
  const lease = await leaseFor(replica);
  await replica.hold(NAME, lease, { priority: 0 });
  await replica.release(NAME, lease);
}

/** Those who stand in the room, as their attempts left them. */
async function inRoom({ gateway: { context } }: Replica): Promise<ContenderRecord[]> {
  const path = context.layout.line('lock-room', 'default', NAME);
  await context.control.sync(path);
  const zk = context.control.until(performance.now() + scaled(10_000));
  const nodes = await Promise.all((await zk.children(path)).map((name) => zk.find(`${path}/${name}`)));
  return nodes.flatMap((node) => (node === undefined ? [] : (decodeRecord(node.data) ?? [])));
}

/** As an attempt leaves it that is killed after it has made its place, or had its turn; nobody waits in it any more. */
async function standIn(
  where: 'lock' | 'lock-room',
  replica: Replica,
  handle: LeaseHandle,
  { requestId = '', priority = 1 } = {},
): Promise<void> {
  const { leases, layout } = replica.gateway.context;
  const lease = await leaseBehind(replica, handle);
  const record = { state: 'waiting', attempt: 'killed', leaseId: lease.leaseId, requestId, waitUntil: 1 };
  const name = nodePrefix(lease.guid('lock', NAME, requestId), where === 'lock' ? 'lock-' : `prio${priority}-`);
  const path = `${layout.line(where, 'default', NAME)}/${name}`;
  const make = (session: LeaseSession): Promise<unknown> =>
    session.create(path, Buffer.from(JSON.stringify(record)), { mode: 'ephemeral-sequential' });
  await leases.sessions.useRepeatedly(lease, performance.now() + scaled(10_000), make);
}

test('a place out of order that a repetition was told it holds is not taken from it', async () => {
  await using pair = await startPair();
  const replica = pair.a; // which has not read the order yet
  await agree(pair.b);
  const lease = await leaseFor(replica);
  let repeated: { holdId: string } | undefined;
  let isDone = false;
  onSessions(replica, (session) => {
    const list = session.getChildren.bind(session);
    session.getChildren = async (path, deadline) => {
      const listing = await list(path, deadline);
      if (path.endsWith(`/locks/${NAME}`) && listing.children.length > 0 && !isDone) {
        isDone = true;
        repeated = await replica.hold(NAME, lease, WAIT);
      }
      return listing;
    };
  });
  const first = await replica.acquire(NAME, lease, WAIT);
  expect(repeated).toBeDefined();
  expect([first.status, first.body]).toMatchObject([409, { code: 'conflict' }]);
  expect((await replica.showLock(NAME)).holders).toMatchObject([{ holdId: repeated!.holdId }]);
  const other = await leaseFor(replica);
  expect((await replica.acquire(NAME, other, { priority: 10 })).body.code).toBe('lock-held');
});

test('who comes without a priority makes no place at a replica that has read the order, and does not use the lock', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await agree(a);
  const { control, freeLines, layout } = a.gateway.context;
  const directory = layout.line('lock', 'default', NAME);
  const lease = await leaseFor(a);
  const places = async (): Promise<number> => (await control.exists(directory))!.cversion;
  const refused = async (replica: Replica, body?: Record<string, unknown>): Promise<void> => {
    expect((await replica.acquire(NAME, lease, body)).body.code).toBe('conflict');
  };
  const before = await places();
  for (const body of [{}, WAIT, { keepPlace: true }]) await refused(a, body);
  freeLines.take(directory);
  for (const body of [{}, WAIT]) await refused(a, body);
  expect(await places()).toBe(before);
  // At a replica that knows nothing of the lock it makes one, which leaves again, but once.
  await refused(b, WAIT);
  const once = await places();
  expect(once).toBe(before + 2);
  await refused(b, WAIT);
  expect(await places()).toBe(once);
});

test('a replica where somebody waits by priority knows the order', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, waits, plain] = [await leaseFor(a), await leaseFor(b), await leaseFor(b)];
  await a.hold(NAME, holder, { priority: 0 });
  expect((await b.acquire(NAME, waits, { priority: 1, keepPlace: true })).status).toBe(202);
  const { control, layout } = a.gateway.context;
  const directory = layout.line('lock', 'default', NAME);
  const { cversion } = (await control.exists(directory))!;
  expect((await b.acquire(NAME, plain, WAIT)).body.code).toBe('conflict');
  expect((await control.exists(directory))!.cversion).toBe(cversion);
});

test('once a lock is taken in order of arrival again, nothing is looked at because of what it was', async () => {
  await using replica = await startReplica();
  await agree(replica);
  const { control, layout } = replica.gateway.context;
  await control.setData(layout.line('lock', 'default', NAME), ownDirectory(false));
  const lease = await leaseFor(replica);
  const listings = (): Promise<number> => replica.metric('postern_line_listings_total', { kind: 'lock' });
  await replica.hold(NAME, lease, WAIT);
  const before = await listings();
  for (let i = 0; i < 3; i += 1) {
    await replica.release(NAME, lease);
    await replica.hold(NAME, lease, WAIT);
  }
  expect(await listings()).toBe(before);
});

describe('a client that goes as its turn is taken', () => {
  test.each([false, true])('leaves nothing for which others wait (keepPlace %s)', async (keepPlace) => {
    const root = freshRoot();
    await using replica = await startReplica({ root });
    await using witness = await Witness.start(root);
    const lease = await leaseFor(replica);
    const gone = new AbortController();
    atTurn(replica, {
      after: async (requester) => {
        gone.abort();
        await eventually('the replica has noticed', () => requester!.gone);
      },
    });
    const cut = replica.acquire(NAME, lease, { ...WAIT, keepPlace, priority: 1 }, { signal: gone.signal });
    await expect(cut).rejects.toThrow();
    await eventually('its wait is over', async () => {
      const [left] = await witness.line(NAME);
      if (!keepPlace) return left === undefined;
      return left?.record?.state === 'waiting' && left.record.waitUntil! <= Date.now();
    });
  });
});

describe('a lease that has all the holds that it may have', () => {
  const settings = { POSTERN_MAX_HOLDS_PER_LEASE: '2' };

  test('waits in no more rooms, and is granted what it waits for', async () => {
    await using replica = await startReplica({ settings });
    const [holder, lease] = [await leaseFor(replica), await leaseFor(replica)];
    await replica.hold(NAME, holder, { priority: 0 });
    await replica.hold('another', lease, { priority: 0 });
    const waiting = replica.acquire(NAME, lease, { ...WAIT, priority: 1 });
    await replica.untilWaiting(NAME, 1);
    const more = await replica.acquire('third', lease, { priority: 1, keepPlace: true });
    expect([more.status, more.body]).toMatchObject([409, { code: 'too-many-holds', limit: 'maxHoldsPerLease' }]);
    await replica.release(NAME, holder);
    expect((await waiting).status).toBe(200);
  });
});

describe('a release by requestId', () => {
  test('takes what stands in the room as well as what stands in the line', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const lease = await leaseFor(a);
    await a.hold(NAME, lease, { priority: 1 });
    await standIn('lock-room', a, lease);
    expect(await inRoom(a)).toHaveLength(1);
    expect((await b.release(NAME, lease)).status).toBe(204);
    expect(await inRoom(a)).toHaveLength(0);
    expect(await a.showLock(NAME)).toMatchObject({ holders: [], waiterCount: 0 });
  });

  test('takes a place whose turn comes meanwhile', async () => {
    await using replica = await startReplica();
    const [holder, lease] = [await leaseFor(replica), await leaseFor(replica)];
    const held = await replica.hold(NAME, holder, { priority: 0 });
    const waiting = replica.acquire(NAME, lease, { ...WAIT, priority: 1 });
    await replica.untilWaiting(NAME, 1);
    let isDone = false;
    onSessions(replica, (session) => {
      const list = session.getEphemerals.bind(session);
      session.getEphemerals = async (path, deadline) => {
        const own = await list(path, deadline);
        if (path?.endsWith(`/locks/${NAME}`) && !isDone) {
          isDone = true;
          await replica.release(NAME, holder, { holdId: held.holdId });
          expect((await waiting).status).toBe(200);
        }
        return own;
      };
    });
    expect((await replica.release(NAME, lease)).status).toBe(204);
    expect(isDone).toBe(true);
    expect(await replica.showLock(NAME)).toMatchObject({ holders: [], waiterCount: 0 });
  });
});

describe('places that nobody asks for any more', () => {
  test(
    'are passed all at once in the room',
    async () => {
      await using replica = await startReplica();
      const [holder, waits] = [await leaseFor(replica), await leaseFor(replica)];
      const left = await replica.createLease({ ttlMs: 60_000 });
      await replica.hold(NAME, holder, { priority: 0 });
      const waiting = replica.acquire(NAME, waits, { ...WAIT, priority: 0 });
      await replica.untilWaiting(NAME, 1);
      // One for each look would take longer than the wait.
      for (let i = 0; i < 12; i += 1) await standIn('lock-room', replica, left, { requestId: `${i}`, priority: 10 });
      await replica.release(NAME, holder);
      expect((await waiting).status).toBe(200);
      expect(await inRoom(replica)).toHaveLength(0);
    },
    scaled(60_000),
  );

  test('stay in the room while the lock is held, and are passed there by one that does not wait', async () => {
    await using replica = await startReplica();
    const [holder, left, lease] = [await leaseFor(replica), await leaseFor(replica), await leaseFor(replica)];
    await replica.hold(NAME, holder, { priority: 0 });
    expect((await replica.acquire(NAME, left, { priority: 0, keepPlace: true })).status).toBe(202);
    await replica.release(NAME, left);
    await standIn('lock-room', replica, left, { priority: 10 });
    const refused = await replica.acquire(NAME, lease, { priority: 9 });
    expect([refused.status, refused.body.code]).toEqual([409, 'lock-held']);
    expect(await inRoom(replica)).toHaveLength(1);
    await replica.release(NAME, holder);
    expect(await replica.hold(NAME, lease, { priority: 9 })).toMatchObject({ alreadyHeld: false });
    expect(await inRoom(replica)).toHaveLength(0);
  });

  test('are passed in the line by one that does not wait', async () => {
    await using replica = await startReplica();
    await agree(replica);
    const [left, lease] = [await leaseFor(replica), await leaseFor(replica)];
    await standIn('lock', replica, left);
    expect(await replica.hold(NAME, lease, { priority: 0 })).toMatchObject({ alreadyHeld: false });
  });
});

test('a request that does not wait is told of the hold that another attempt is granted as it looks', async () => {
  await using replica = await startReplica();
  const leases = await Promise.all([leaseFor(replica), leaseFor(replica), leaseFor(replica)]);
  const [holder, lease, other] = leases;
  const held = await replica.hold(NAME, holder, { priority: 0 });
  const waits = [
    replica.acquire(NAME, lease, { ...WAIT, priority: 5 }),
    replica.acquire(NAME, other, { ...WAIT, priority: 1 }),
  ] as const;
  await replica.untilWaiting(NAME, 2);
  let isDone = false;
  onSessions(replica, (session) => {
    const list = session.getChildren.bind(session);
    session.getChildren = async (path, deadline) => {
      if (path.endsWith(`/lock-rooms/${NAME}`) && !isDone) {
        isDone = true;
        await replica.release(NAME, holder, { holdId: held.holdId });
        await waits[0];
      }
      return list(path, deadline);
    };
  });
  const again = await replica.acquire(NAME, lease, { priority: 5 });
  const { holdId } = (await waits[0]).body;
  expect([again.status, again.body]).toMatchObject([200, { holdId, alreadyHeld: true }]);
  expect((await replica.release(NAME, lease)).status).toBe(204);
  expect((await waits[1]).status).toBe(200);
});

test('a request that was repeated elsewhere does not take the place back whose turn the later one has had', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, lease] = [await leaseFor(a), await leaseFor(a)];
  const held = await a.hold(NAME, holder, { priority: 0 });
  const asked = { ...WAIT, priority: 1 };
  const first = a.acquire(NAME, lease, asked);
  await a.untilWaiting(NAME, 1);
  const [before] = await inRoom(a);
  const later = b.acquire(NAME, lease, asked);
  await eventually('the later one has the place', async () => (await inRoom(a))[0]?.attempt !== before!.attempt);
  let isDone = false;
  onSessions(a, (session) => {
    const list = session.getChildren.bind(session);
    session.getChildren = async (path, deadline) => {
      if (path.endsWith(`/lock-rooms/${NAME}`) && !isDone) {
        isDone = true;
        await later;
      }
      return list(path, deadline);
    };
  });
  await b.release(NAME, holder, { holdId: held.holdId });
  const { status, body } = await later;
  expect(status).toBe(200);
  const refused = await first;
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'conflict' }]);
  expect((await b.showLock(NAME)).holders).toMatchObject([{ holdId: body.holdId }]);
});

test('who is refused at its turn, because the order was written over, leaves nothing in the room', async () => {
  await using replica = await startReplica();
  const [holder, lease] = [await leaseFor(replica), await leaseFor(replica)];
  await replica.hold(NAME, holder, { priority: 0 });
  const waiting = replica.acquire(NAME, lease, { ...WAIT, priority: 1 });
  await replica.untilWaiting(NAME, 1);
  const { control, layout } = replica.gateway.context;
  await control.setData(layout.line('lock', 'default', NAME), Buffer.from('postern with delays'));
  await replica.release(NAME, holder);
  const refused = await waiting;
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'conflict' }]);
  expect(await inRoom(replica)).toHaveLength(0);
});

test('a lease that is looked at as its turn comes is shown with what it is granted', async () => {
  await using replica = await startReplica();
  const [holder, lease] = [await leaseFor(replica), await leaseFor(replica)];
  const held = await replica.hold(NAME, holder, { priority: 0 });
  const waiting = replica.acquire(NAME, lease, { ...WAIT, priority: 1 });
  await replica.untilWaiting(NAME, 1);
  let isDone = false;
  onSessions(replica, (session) => {
    const list = session.getEphemerals.bind(session);
    session.getEphemerals = async (path, deadline) => {
      const own = await list(path, deadline);
      if (!isDone) {
        isDone = true;
        await replica.release(NAME, holder, { holdId: held.holdId });
        await waiting;
      }
      return own;
    };
  });
  const { holdId } = (await replica.showLease(lease)).body.holds[0] as { holdId: string };
  expect(isDone).toBe(true);
  expect((await waiting).body).toMatchObject({ holdId });
});
