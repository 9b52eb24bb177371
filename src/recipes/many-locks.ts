/**
 * Many exclusive locks for one lease, all or none.
 *
 * Guarantee: a caller that is answered holds them all; one that is refused holds none that it did not hold before. Callers that use this
 *   never wait for each other in a circle: everybody takes the locks in the order of their names, so whoever waits for one holds
 *   only lower ones, and the one with the highest wait waits for nobody who waits.
 * Not guaranteed: freedom of deadlock for those who hold other locks already. Such a circle lasts no longer than `waitMs`.
 *
 * Step by step, and what a crash after each leaves:
 *
 * 1. Lock by lock: line up and wait, as for a single lock (`acquire.ts`), all under one deadline that counts from the arrival of the request.
 *    A replica that is killed here leaves holds and a waiting place of a lease that lives on. The place is abandoned and goes by itself
 *    (protocol C3); the holds are what a repeated request finds (`alreadyHeld`), in the same order, so it can wait in no circle either.
 * 2. One of them is refused, taken away, or ZooKeeper does not answer: everything that this request took is given back, the last first, so
 *    that at each moment what is held is what some caller could hold on its way. Each is deleted at the version that this attempt wrote: a
 *    repeated request that has taken it over meanwhile keeps it (C1). What ZooKeeper cannot be told now is deleted in the background.
 * 3. The answer cannot be delivered: likewise.
 *
 * While it waits for a later lock, the earlier ones are held and the lease is kept alive, three times per TTL.
 * A place in line is never kept (`oneOfMany`), not even when the replica drains: at the head of a line it would stand in the way of others
 * while its request begins again with the first name.
 */
import type { Lease } from '../leases/lease.js';
import type { Granted, NotGranted } from './acquire.js';
import type { Coordination } from './coordination.js';
import { acquireLock, type AcquireLock } from './lock.js';

export type AcquireLocks = Omit<AcquireLock, 'name' | 'keepPlace' | 'oneOfMany' | 'data'> & {
  /** No name twice. */
  names: readonly string[];
};

export type ManyGranted = {
  held: true;
  /** By name, in the order of the request. */
  grants: ReadonlyMap<string, Granted>;
  giveBack: () => Promise<void>;
};

export type ManyNotGranted = {
  held: false;
  /** Which of them could not be had, and why. */
  name: string;
  refusal: NotGranted;
};

/** @throws as `acquireLock`, after everything that this request took was given back */
export async function acquireLocks(
  context: Coordination,
  lease: Lease,
  request: AcquireLocks,
): Promise<ManyGranted | ManyNotGranted> {
  const { names, ...rest } = request;
  const grants = new Map<string, Granted>();
  const giveBack = async (): Promise<void> => {
    for (const granted of [...grants.values()].reverse()) await granted.giveBack();
  };
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
        await giveBack();
        return { held: false, name, refusal: result };
      }
      grants.set(name, result);
    }
  } catch (error) {
    await giveBack();
    throw error;
  }
  return { held: true, grants: new Map(names.map((name) => [name, grants.get(name) as Granted])), giveBack };
}
