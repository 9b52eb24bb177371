/** Locks by priority: what becomes of places that are left, taken over, or released as their turn comes (C94). */
import { describe, expect, test } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import type { LeaseSession } from '../../../../src/zookeeper/lease-session.js';
import type { Requester } from '../../../../src/time.js';
import { eventually } from '../../../support/eventually.js';
import { Witness } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';

const NAME = 'places';
const WAIT = { waitMs: 50_000 };

type Around = (session: LeaseSession, requester: Requester | undefined) => void;

/** Has `prepare` change the lease sessions that requests of this replica work with. */
function onSessions(replica: Replica, prepare: Around): void {
  const { sessions } = replica.gateway.context.leases;
  const use = sessions.useRepeatedly.bind(sessions);
  sessions.useRepeatedly = (lease, deadline, work, requester) =>
    use(
      lease,
      deadline,
      (session, attempt) => {
        prepare(session, requester);
        return work(session, attempt);
      },
      requester,
    );
}

/** Lets `meanwhile` happen once, before or after the transaction of a turn. */
function atTurn(replica: Replica, when: 'before' | 'after', meanwhile: (requester?: Requester) => unknown): void {
  let isDone = false;
  onSessions(replica, (session, requester) => {
    const multi = session.multi.bind(session);
    session.multi = async (items, until) => {
      const isTurn = items.some(({ type, path }) => type === 'setData' && path.includes('/lock-rooms/'));
      const isNow = isTurn && !isDone;
      isDone ||= isNow;
      if (isNow && when === 'before') await meanwhile(requester);
      const done = await multi(items, until);
      if (isNow && when === 'after') await meanwhile(requester);
      return done;
    };
  });
}

function leaseFor(replica: Replica): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000 });
}

/** Makes the lock one by priority, and leaves it free. */
async function agree(replica: Replica): Promise<void> {
  const lease = await leaseFor(replica);
  await replica.hold(NAME, lease, { priority: 0 });
  await replica.release(NAME, lease);
}

/** How many stand in the room. */
async function inRoom({ gateway: { context } }: Replica): Promise<number> {
  const path = context.layout.line('lock-room', 'default', NAME);
  await context.control.sync(path);
  return (await context.control.until(performance.now() + scaled(10_000)).children(path)).length;
}

test('a place out of order that a repetition was told it holds is not taken from it', async () => {
  await using replica = await startReplica();
  await agree(replica);
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

test('who comes without a priority makes no place where it can see that', async () => {
  await using replica = await startReplica();
  await agree(replica);
  const { control, layout } = replica.gateway.context;
  const made = async (): Promise<number> => (await control.exists(layout.line('lock', 'default', NAME)))!.cversion;
  const before = await made();
  const lease = await leaseFor(replica);
  replica.gateway.context.freeLines.take(layout.line('lock', 'default', NAME));
  expect((await replica.acquire(NAME, lease)).body.code).toBe('conflict');
  expect(await made()).toBe(before);
});

describe('a client that goes as its turn is taken', () => {
  test.each([false, true])('leaves nothing for which others wait (keepPlace %s)', async (keepPlace) => {
    const root = freshRoot();
    await using replica = await startReplica({ root });
    await using witness = await Witness.start(root);
    const lease = await leaseFor(replica);
    const gone = new AbortController();
    atTurn(replica, 'after', async (requester) => {
      gone.abort();
      await eventually('the replica has noticed', () => requester!.gone);
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
