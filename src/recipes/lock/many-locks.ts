/**
 * Many exclusive locks for one lease, all or none.
 *
 * Guarantee: a caller that is granted holds them all; one that is refused holds none that it did not hold before.
 * Callers of this operation never deadlock with each other: everybody takes the locks in the order of their names, so a
 * caller that waits for one holds only lower ones, and the one that waits for the highest name waits for nobody who
 * waits.
 * Not guaranteed: freedom from deadlock for callers that already hold other locks. Such a deadlock lasts no longer than
 * `waitMs`.
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. Lock by lock: line up and wait, as for a single lock (`acquire.ts`), all under one deadline that counts from the
 *    arrival of the request. A replica that is killed here leaves holds and a waiting place of a lease that lives on.
 *    The place is abandoned and goes by itself (protocol C3); the holds are what a repeated request finds
 *    (`alreadyHeld`), in the same order, so it can wait in no circle either.
 * 2. One of them is refused, taken away, or ZooKeeper does not answer: everything that this request took is given back,
 *    the last first, so that the locks held at each moment are always those of some step on the way. Each is deleted at
 *    the version that this attempt wrote: a repeated request that has taken it over meanwhile keeps it (C1). If
 *    ZooKeeper cannot be reached, they are deleted in the background, and the outcome is unknown.
 * 3. The answer cannot be delivered: likewise. So if one of those that were taken first is gone when the last one is
 *    granted, because it was broken or released meanwhile: `conflict`. A hold never comes back, so what is there then
 *    was held all the time.
 *
 * While it waits for a later lock, the earlier ones are held and the lease is kept alive, three times per TTL. A place
 * in line is never kept (`oneOfMany`), not even when the replica drains: at the head of a line it would stand in the
 * way of others while its request begins again with the first name.
 */
import { LeaseExpiredError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import { decodeHoldId, holdNodeName, type Hold } from '../line/contender.js';
import type { Coordination } from '../coordination.js';
import { SECOND } from '../../time.js';
import { mayBeApplied, NoReplyError, zooKeeperReason } from '../../zookeeper/errors.js';
import { acquireLock, type AcquireLock } from './lock.js';

export type AcquireLocks = Omit<AcquireLock, 'name' | 'keepPlace' | 'oneOfMany' | 'data'> & {
  /** No name twice. */
  names: readonly string[];
};

export type ManyGranted = {
  held: true;
  /** By name, in the order of the request. */
  grants: ReadonlyMap<string, Granted>;
  giveBack: (deadline?: number) => Promise<boolean>;
};

export type ManyNotGranted = {
  held: false;
  /** Which of them could not be had, and why. */
  name: string;
  refusal: NotGranted;
};

/** For so long at most, and at least if its time is over, a request gives back what it took before it is answered. */
const [GIVE_BACK_MAX_MS, GIVE_BACK_MIN_MS] = [10 * SECOND, SECOND];

/**
 * @throws as `acquireLock`, after everything that this request took was given back; NoReplyError with `maybeApplied`
 *   when it is not known that it was
 */
export async function acquireLocks(
  context: Coordination,
  lease: Lease,
  request: AcquireLocks,
): Promise<ManyGranted | ManyNotGranted> {
  const { names, ...rest } = request;
  const grants = new Map<string, Granted>();
  const giveBack = async (deadline?: number): Promise<boolean> => {
    let done = true;
    for (const granted of [...grants.values()].reverse()) done = (await granted.giveBack(deadline)) && done;
    return done;
  };
  let refused: ManyNotGranted | undefined;
  try {
    // By code units, which is the same order everywhere.
    for (const name of [...names].sort()) {
      const result = await acquireLock(context, lease, {
        ...rest,
        name,
        keepPlace: false,
        oneOfMany: true,
        data: undefined,
      });
      if (!result.held) {
        refused = { held: false, name, refusal: result };
        break;
      }
      grants.set(name, result);
    }
    if (refused === undefined && rest.waitMs > 0 && grants.size > 1)
      await checkHeld(context, lease, grants, rest.hardDeadline);
  } catch (error) {
    const done = await giveBack(undoneBy(rest.hardDeadline));
    if (done || error instanceof LeaseExpiredError || mayBeApplied(error)) throw error;
    throw new NoReplyError('the giving back of the locks', 'deadline', true, error);
  }
  if (refused !== undefined) {
    if (await giveBack(undoneBy(rest.hardDeadline))) return refused;
    throw new NoReplyError('the giving back of the locks', 'deadline', true);
  }
  return { held: true, grants: new Map(names.map((name) => [name, grants.get(name) as Granted])), giveBack };
}

/** @throws PosternError `conflict` when one of them was lost while the request waited for others; LeaseExpiredError */
async function checkHeld(
  { control, layout, leases }: Coordination,
  lease: Lease,
  grants: ReadonlyMap<string, Granted>,
  deadline: number,
): Promise<void> {
  const zk = control.until(deadline);
  const held = [...grants].map(([name, { holdId }]) => {
    const path = `${layout.line('lock', lease.namespace, name)}/${holdNodeName(decodeHoldId(holdId) as Hold)}`;
    return { name, path };
  });
  // Their children, of which they have none: their data may be long.
  const { results } = await zk.fresh(() => zk.multiRead(held.map(({ path }) => ({ type: 'getChildren', path }))));
  const lost = held.find((_, i) => {
    const result = results[i];
    return result !== undefined && 'error' in result && zooKeeperReason(result.error) === 'NO_NODE';
  });
  if (lost === undefined) return;
  await leases.touch(lease, deadline); // throws when it is the lease that has ended
  throw new PosternError(
    'conflict',
    `Lock "${lost.name}" was taken away while the request waited for others, and the lease lives; what else the request took was given back. Repeat the request to line up again.`,
    { members: { name: lost.name } },
  );
}

function undoneBy(hardDeadline: number): number {
  const now = performance.now();
  return Math.min(now + GIVE_BACK_MAX_MS, Math.max(hardDeadline, now + GIVE_BACK_MIN_MS));
}
