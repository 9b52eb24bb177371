/**
 * Election: candidates stand in line, and the first one leads.
 *
 * Guarantee: as seen by ZooKeeper there is at most one leader, in order of preference (`preference.ts`) and arrival,
 *   and its fencing token (the czxid of its node) is higher than those of all leaders before it. A candidate leaves
 *   when its lease ends, and the next one leads.
 * Not guaranteed: that a paused leader has noticed that its lease ended, nor that a new one has noticed that it leads:
 * see `acknowledged`.
 *
 * Layout:  <root>/ns/<namespace>/elections/<name>/_c_<guid>-latch-<sequence>   ephemeral, of the lease's session
 *          data = an id in one line (the value; without one label or leaseId), and the record as JSON behind it;
 *          directly behind it its tail, which foreign clients watch (`candidate-tail.ts`, protocol T14)
 * Source:  ZooKeeper recipes, "Leader Election"; Curator's LeaderLatch (names; the first in line leads; data is the
 *          id).
 *
 * Reading order: this; `line/line.ts`, which a campaign lines up in; `candidacy.ts`; `view.ts`; then `overtaking.ts`
 * and who uses it, `transfer.ts` and `preference.ts`.
 *
 * A candidacy, step by step:
 *
 * 1. *campaign* lines up as an acquire does (`line/join/join.ts`). First in line: granted by the create or by the
 *    adopting write, 200. Otherwise it waits for its predecessor alone; when that is gone, it writes `granted`,
 *    version-checked, and only then answers 200. So a 200 proves that the lease still lived and that no other attempt
 *    had the place.
 * 2. If the wait ends in vain, the client leaves, or the replica drains or is killed, the candidate *stays*
 *    (`keepPlace`, by default). It has no `waitUntil`, so nobody ever takes it for abandoned (protocol C3). It leaves
 *    by resigning or with its lease. With `keepPlace: false` it is a place like one for a lock, and given up at the end
 *    of the wait.
 * 3. Its predecessor leaves. If a campaign waits: hand-over or watch, as for locks, one waiter woken. If none does,
 *    nobody is woken: the candidate leads because it is the first, its node still says `waiting`, observers see it with
 *    `acknowledged: false`. Its client learns it from its lease's event stream, from repeating the campaign, or from
 *    looking.
 * 4. *proclaim* and *acknowledge* (`candidacy.ts`) write to exactly this node, at the version read, on the lease's own
 *    session, after a listing has shown it as the first. The first stays first while it exists, so a successful write
 *    was the leader's.
 * 5. *resign* deletes the node, by candidateId or requestId (`release.ts`), and hands over to a campaign that waits in
 *    this replica.
 *
 * Where it can be cut off:
 *
 *   campaign's create answered, reply lost       the repeat finds the node by its guid and adopts it (C1, C6)
 *   granted, 200 lost                            the candidate leads, unacknowledged; the repeat answers the same
 *                                                candidateId
 *   replica killed between create and `waiting`  the node says `granted` and is not first: counts for nothing until it
 *                                                is (C3), and then it leads anyway
 *   leader gone, next one's replica killed       the next one leads all the same; its client repeats the campaign
 *                                                elsewhere
 *   proclaim's write answered, reply lost        done again on a new connection: the same value, at the version read
 *                                                then
 *   campaign repeated late, after a proclaim     a leader's value is not touched by campaigns
 *   acknowledge against a campaign that waits    both want to write; the campaign finds that another attempt has the
 *                                                place: 409, repeat it
 *   a lease ends between listing and write       the write fails on the lease's own session: 410
 */
import type { Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import type { Granted, NotGranted } from '../line/acquire.js';
import type { Coordination } from '../coordination.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../line/request.js';
import type { NewLease } from '../with-lease.js';
import { advance } from './preference.js';

export interface Campaign extends Omit<AcquireLine, 'kind' | 'mode' | 'candidate' | 'advance'> {
  /** How much the candidate is preferred; 0: not at all. */
  preference: number;
}

const KIND = 'election';

/** Lines up and waits to lead. What the result calls a hold is the candidacy. */
export function campaign(context: Coordination, lease: Lease, request: Campaign): Promise<Granted | NotGranted> {
  return acquireLine(context, lease, lineRequest(context, lease.namespace, request));
}

/** Takes a lease and stands in one call. */
export function campaignWithLease(
  context: Coordination,
  newLease: NewLease,
  request: Campaign,
): Promise<{ result: Granted | NotGranted; lease: Lease; leaseToken: string }> {
  return acquireLineWithLease(context, newLease, lineRequest(context, newLease.namespace, request));
}

function lineRequest(context: Coordination, namespace: string, { preference, ...request }: Campaign): AcquireLine {
  const line: AcquireLine = { ...request, kind: KIND, mode: 'exclusive' };
  const { name, hardDeadline: deadline, requester, waitMs, keepPlace } = request;
  if (preference > 0) line.candidate = { preference };
  // A request without a preference may find a place of an earlier one that has one.
  if (waitMs > 0 || keepPlace)
    line.advance = (place, inLine) => advance(context, { namespace, name, deadline, requester }, place, inLine);
  return line;
}

export interface Resignation {
  lease: Lease;
  name: string;
  candidateId: string | undefined;
  requestId: string;
  deadline: number;
  requester: Requester;
}

/** Gives a candidacy up, whether it leads or waits. @throws NotHolderError when there is none */
export function resign(context: Coordination, { candidateId, ...request }: Resignation): Promise<void> {
  return releaseLine(context, KIND, { ...request, holdId: candidateId });
}
