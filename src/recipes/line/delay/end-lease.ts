/**
 * Ends a lease at the request of its owner or an administrator: everything it held is free at once, without the
 * lock-delays that follow a loss (`lock-delay.ts`).
 *
 * The end of a session removes its nodes, but not the marks of its holds, which are persistent. So holds with a mark
 * are released first, each in one transaction with its mark. A crash in between leaves the lease as it is, with fewer
 * holds; the repeated request goes on. A lease that never asked for a delay is recognised by the absence of one node,
 * read together with a `sync`.
 *
 * An acquire with a delay that is answered at the same moment may be granted between the two, and is then lost with its
 * delay.
 *
 * ZooKeeper ends a session whoever asks for it, even on a connection that the session has moved away from, where every
 * other write is refused. So a close is sent only after the answer to that `sync`, to a server that has just answered,
 * and for a client that is still there: an end that waited and was given up must not take what the lease has acquired
 * since (protocol C35).
 */
import { DELAYED_KINDS } from '../../../leases/layout.js';
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { isReason, orUnknown } from '../../../zookeeper/errors.js';
import { parentOf } from '../../../zookeeper/paths.js';
import type { Coordination } from '../../coordination.js';
import { mayHaveReader } from '../candidate-tail.js';
import { delayOf, deleteWithMark } from './mark.js';

const RELEASES_AT_ONCE = 64;

/**
 * What else is released before, on the lease's session, because it leaves marks behind.
 * @param onRelease to be called before a release is sent
 */
export type ReleaseFirst = (zk: BoundClient, onRelease: () => void) => Promise<void>;

/** Ending a lease that has ended is fine. @throws ClientGoneError */
export async function endLease(
  context: Coordination,
  lease: Lease,
  { deadline, requester }: Awaited,
  releaseFirst: ReleaseFirst = () => Promise.resolve(),
): Promise<void> {
  let releasing = false;
  const onRelease = (): void => void (releasing = true);
  const ending = context.leases.sessions.end(lease, deadline, requester, async (session) => {
    const zk = session.until(deadline);
    await Promise.all([releaseDelayed(zk, context.layout, lease, onRelease), releaseFirst(zk, onRelease)]);
  });
  await orUnknown(ending, () => releasing);
}

/** Before a lease is granted anything with a delay: says so, for its end. */
export async function tellOfDelays(
  { layout, control }: Coordination,
  zk: BoundClient,
  { namespace, leaseId }: Lease,
): Promise<void> {
  const path = layout.delayedLease(namespace, leaseId);
  for (;;) {
    try {
      await zk.create(path, undefined, 'ephemeral');
      return;
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) return;
      if (!isReason(error, 'NO_NODE')) throw error;
      await control.ensurePath(parentOf(path), zk.deadline);
    }
  }
}

async function releaseDelayed(
  zk: BoundClient,
  layout: Coordination['layout'],
  { namespace, leaseId }: Lease,
  onRelease: () => void,
): Promise<void> {
  const [, told] = await Promise.all([zk.sync('/'), zk.exists(layout.delayedLease(namespace, leaseId))]);
  if (told === undefined) return;
  const paths = await zk.ephemerals(layout.namespace(namespace));
  const holds = paths.filter((path) =>
    DELAYED_KINDS.some((kind) => path.startsWith(`${layout.lines(kind, namespace)}/`)),
  );
  for (let i = 0; i < holds.length; i += RELEASES_AT_ONCE) {
    const batch = holds.slice(i, i + RELEASES_AT_ONCE);
    await Promise.all(batch.map((path) => releaseIfDelayed(zk, path, onRelease)));
  }
}

/** @param onRelease called before the release is sent: whatever fails first after that, it may be done */
async function releaseIfDelayed(zk: BoundClient, path: string, onRelease: () => void): Promise<void> {
  for (;;) {
    const node = await zk.find(path);
    if (node === undefined || (await delayOf(zk, path, node)) === 0) return;
    onRelease();
    const { czxid, version } = node.stat;
    try {
      return await deleteWithMark(zk, { path, czxid, version }, mayHaveReader(node.data));
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error; // else changed meanwhile: read anew
    }
  }
}
