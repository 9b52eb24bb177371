/**
 * Ending a lease because its owner, or an administrator, wants it: everything it held is free at once, without the lock-delays that follow
 * a loss (`lock-delay.ts`).
 *
 * The end of a session takes its nodes, not the marks of its holds, which are persistent. So the holds that have one are released
 * first, each in one transaction with its mark. A crash in between leaves the lease as it is, with fewer holds; the repeated request goes on.
 * A lease that never asked for a delay is known by one node that is not there, read together with a `sync`.
 *
 * An acquire with a delay that is answered at the same moment may be granted between the two, and is then lost with its delay.
 */
import { LeaseExpiredError } from '../errors.js';
import { DELAYED_KINDS } from '../leases/layout.js';
import type { Lease } from '../leases/lease.js';
import { isReason, orUnknown, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import { parentOf } from '../zookeeper/paths.js';
import type { Coordination } from './coordination.js';
import { delayOf, deleteWithMark } from './delay-mark.js';

const RELEASES_AT_ONCE = 64;

/** Ending a lease that has ended is fine. */
export async function endLease(context: Coordination, lease: Lease, deadline: number): Promise<void> {
  let released = false;
  const ending = async (): Promise<void> => {
    try {
      await context.leases.sessions.useRepeatedly(lease, deadline, (session) =>
        releaseDelayed(context, session, lease, () => (released = true), deadline),
      );
    } catch (error) {
      if (!(error instanceof LeaseExpiredError)) throw error;
    }
    await context.leases.end(lease, deadline);
  };
  await orUnknown(ending(), () => released);
}

/** Before a lease is granted anything with a delay: says so, for its end. */
export async function tellOfDelays(
  { layout, control }: Coordination,
  session: LeaseSession,
  { namespace, leaseId }: Lease,
  deadline: number,
): Promise<void> {
  const path = layout.delayedLease(namespace, leaseId);
  for (;;) {
    try {
      await session.create(path, undefined, { mode: 'ephemeral' }, deadline);
      return;
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) return;
      if (!isReason(error, 'NO_NODE')) throw error;
      await control.ensurePath(parentOf(path), deadline);
    }
  }
}

async function releaseDelayed(
  { layout }: Coordination,
  session: LeaseSession,
  { namespace, leaseId }: Lease,
  onReleased: () => void,
  deadline: number,
): Promise<void> {
  const [, told] = await Promise.all([
    session.sync('/', deadline),
    session.exists(layout.delayedLease(namespace, leaseId), deadline),
  ]);
  if (told === undefined) return;
  const paths = await session.getEphemerals(layout.namespace(namespace), deadline);
  const holds = paths.filter((path) =>
    DELAYED_KINDS.some((kind) => path.startsWith(`${layout.lines(kind, namespace)}/`)),
  );
  for (let i = 0; i < holds.length; i += RELEASES_AT_ONCE) {
    const batch = holds.slice(i, i + RELEASES_AT_ONCE);
    await Promise.all(batch.map((path) => releaseIfDelayed(session, path, onReleased, deadline)));
  }
}

async function releaseIfDelayed(
  session: LeaseSession,
  path: string,
  onReleased: () => void,
  deadline: number,
): Promise<void> {
  const node = await unless(session.getData(path, deadline), 'NO_NODE');
  if (node === undefined || (await delayOf(session, path, node, deadline)) === 0) return;
  await unless(deleteWithMark(session, { path, czxid: node.stat.czxid }, deadline), 'NO_NODE');
  onReleased();
}
