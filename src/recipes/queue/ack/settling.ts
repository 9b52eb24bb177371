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
 *   acknowledge   delete(c, its version), delete(d, version), delete(m)
 *   give back     create or setData(the lease's marks), check(d, version), delete(c, its version)
 *                 … in its old place (`nacks.ts`), or deleted here and created among the delayed ones or dead letters
 *   prolong       check(d, version), setData(c, its version)
 *
 * Prolonging a claim, or answering it to a repeated request, writes its own node. So a request that its client has
 * given up does nothing to a claim that the client was told of since (protocol C35).
 *
 * Repeated after a lost reply: what was given back has its mark, so the same claimId says `gone`. An acknowledged
 * message is gone, and gone for good, so the same claimId says `gone` too, unless it has the mark: then somebody else
 * has acknowledged the message. A claim that could end otherwise while its lease lives (it had a time) may have been
 * lost as well: only while its time is not over is `gone` sure; after that it is `not-holder`.
 */
import type { Lease } from '../../../leases/lease.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import { AS_MADE, claimPath, recordPath } from '../claim/entry.js';
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
  /** Of the claim's own node, as far as this request knows. */
  version: number;
}

/** Those of this queue and this lease; what else is named was lost, or never was. */
export function settlings(queue: Queue, lease: Lease, claimIds: readonly string[]): Settling[] {
  return claimIds.flatMap((claimId, index) => {
    const claim = decodeClaimId(lease, claimId);
    if (claim === undefined || claim.queueId !== queue.id) return [];
    return [{ claimId, claim, path: queue.paths.message(claim), index, version: AS_MADE }];
  });
}

/**
 * Those of a batch whose claims stand, with their versions of now, after a transaction with all of them has failed at
 * `culprit`: were they found out one by one, each would cost a transaction. What this session reads is not older than
 * that. The culprit is among them only if its version is another one than was tried.
 */
export async function standing(
  session: LeaseSession,
  batch: readonly Settling[],
  culprit: Settling,
  deadline: number,
): Promise<Settling[]> {
  const versions = await versionsOf(session, batch, deadline);
  return batch.flatMap((settling, i) => {
    const version = versions[i];
    if (version === undefined || (settling === culprit && version === settling.version)) return [];
    return [{ ...settling, version }];
  });
}

/** A batch with the versions that are known here, for a transaction that decides. */
export async function withVersions(
  session: LeaseSession,
  batch: readonly Settling[],
  deadline: number,
): Promise<Settling[]> {
  const versions = await versionsOf(session, batch, deadline);
  return batch.map((settling, i) => ({ ...settling, version: versions[i] ?? settling.version }));
}

/** Of the claims' own nodes, as this server has them; undefined of those that do not stand. */
async function versionsOf(
  session: LeaseSession,
  batch: readonly Settling[],
  deadline: number,
): Promise<(number | undefined)[]> {
  const { results } = await session.multiRead(
    batch.flatMap(({ path }) => [
      { type: 'getData' as const, path: claimPath(path) },
      { type: 'getData' as const, path: recordPath(path) },
    ]),
    deadline,
  );
  return batch.map(({ claim }, i) => {
    const [node, record] = [results[2 * i], results[2 * i + 1]];
    if (node === undefined || !('data' in node) || record === undefined || !('data' in record)) return undefined;
    return record.stat.version === claim.version ? node.stat.version : undefined;
  });
}
