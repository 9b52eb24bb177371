/** The request to pass a double barrier, its result, and its refusals. */
import { PosternError, StandingConflictError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Caller, Requester } from '../../time.js';
import { describeMember } from '../membership/member.js';
import type { OtherOwner } from '../membership/membership.js';

export interface Passage {
  lease: Lease;
  name: string;
  /** Without it the lease's own. */
  member: string | undefined;
  requestId: string;
  waitMs: number;
  /** Arrival of the request, monotonic: what the wait counts from. */
  receivedAt: number;
  /** By when the request must have been done, apart from its wait. */
  deadline: number;
  signal: AbortSignal;
  requester: Requester;
}

/** Of a member whose lease is made in the same request. */
export interface FirstPassage extends Omit<Passage, 'lease'> {
  requester: Caller;
}

export interface Passed {
  /** Whether all are in, or out. */
  done: boolean;
  member: string;
  /** Of the node; undefined when there was none to leave with. */
  memberId: string | undefined;
  fencingToken: number | undefined;
  /** How many are in the barrier, when it was not done. */
  memberCount: number;
  waitedMs: number;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

export function otherSize(name: string, asked: number, size: number | undefined): PosternError {
  return new StandingConflictError(
    `Double barrier "${name}" gathers ${size ?? 'another number of'} members, not ${asked}; all who enter together say the same size.`,
    size === undefined ? { name } : { name, size },
  );
}

export function nameTaken(name: string, member: string, { node }: OtherOwner): PosternError {
  const { leaseId, label, since, external } = describeMember(member, node);
  const who = external ? 'a client other than Postern’s' : label === '' ? `lease ${leaseId}` : `"${label}"`;
  return new PosternError(
    'conflict',
    `Member "${member}" of double barrier "${name}" is ${who} since ${new Date(since).toISOString()}.`,
    {
      members: {
        name,
        member,
        holder: external ? { external } : { leaseId, label, since: new Date(since).toISOString() },
      },
    },
  );
}
