/**
 * Settling claims: acknowledge (`acknowledge.ts`), give back (`give-back.ts`), prolong (`prolong.ts`). This file has
 * what these share.
 *
 * Everything is a transaction that deletes or writes the claim's own node, which goes with the lease, and checks the
 * delivery record at the version that this claim wrote, which every later claim raises. So neither a lease that has
 * ended nor an earlier claimer can do anything to a message that is somebody else's by now (protocol C20), and the
 * claim goes first because it is the message's child (C21).
 *
 *   all of them   check(the data directory at version 0)           the queue was not deleted (protocol T7)
 *   acknowledge   delete(c), delete(d, version), delete(m)
 *   give back     create or setData(the lease's marks), check(d, version), delete(c)     in its old place (`nacks.ts`)
 *                 … and into the delayed ones, or to the dead letters: deleted here and created there at once
 *   prolong       check(d, version), setData(c)
 *
 * Repeated after a lost reply: what was given back has its mark, so the same claimId says `gone`. An acknowledged
 * message is gone, and gone for good, so the same claimId says `gone` too, unless it has the mark: then somebody else
 * has acknowledged the message. A claim that could end otherwise while its lease lives (it had a time) may have been
 * lost as well: only while its time is not over is `gone` sure; after that it is `not-holder`.
 */
import type { Lease } from '../../../leases/lease.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { claimPath, recordPath } from '../claim/entry.js';
import { decodeClaimId, type Claim } from '../claim/id.js';
import type { Queue } from '../queue.js';

export type Settled = 'done' | 'gone' | 'lost';

/** One of the claims that a request names. */
export interface Settling {
  claimId: string;
  claim: Claim;
  /** Of the message. */
  path: string;
  /** Its place among those that the request names. */
  index: number;
}

/** Those of this queue and this lease; what else is named was lost, or never was. */
export function settlings(queue: Queue, lease: Lease, claimIds: readonly string[]): Settling[] {
  return claimIds.flatMap((claimId, index) => {
    const claim = decodeClaimId(lease, claimId);
    if (claim === undefined || claim.queueId !== queue.id) return [];
    return [{ claimId, claim, path: queue.paths.message(claim), index }];
  });
}

/**
 * Those of a batch whose claims stand, after a transaction with all of them has failed at `culprit`: were they found
 * out one by one, each would cost a transaction.
 */
export async function standing(
  session: LeaseSession,
  batch: readonly Settling[],
  culprit: Settling,
  deadline: number,
): Promise<Settling[]> {
  const others = batch.filter((settling) => settling !== culprit);
  if (others.length < 2) return others;
  const { results } = await session.multiRead(
    others.flatMap(({ path }) => [
      { type: 'getData' as const, path: claimPath(path) },
      { type: 'getData' as const, path: recordPath(path) },
    ]),
    deadline,
  );
  return others.filter(({ claim }, i) => {
    const [node, record] = [results[2 * i], results[2 * i + 1]];
    return (
      node !== undefined &&
      'data' in node &&
      record !== undefined &&
      'data' in record &&
      record.stat.version === claim.version
    );
  });
}
