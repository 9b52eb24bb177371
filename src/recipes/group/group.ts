/**
 * Group membership: members under names of their own choice, each with a value.
 *
 * Guarantee: as seen by ZooKeeper a name belongs to one living lease at a time, and a member leaves the group when its
 * lease ends. Every membership has a fencing token, the czxid of its node, higher than those of all earlier members of
 * that name. Not guaranteed: that a paused member has noticed that its lease ended.
 *
 * Layout:  <root>/ns/<namespace>/groups/<name>/<member>   ephemeral, of the lease's session; data:
 *                                                         `membership/member.ts`
 * Source:  ZooKeeper recipes, "Group Membership"; Curator's GroupMember (names; its payload is shown as the value of an
 *          external member).
 *
 * Reading order: this; `view.ts` and `observer.ts`; `divide.ts` and `shares.ts`; `tidy.ts`.
 *
 * One walk through, members A and B, and everybody else looking:
 *
 * 1. A joins: a create on its own session, with the directory in the same transaction when it is the first (C13). A
 *    crash before the answer: the repeated request finds a node of its own session, and writes to it.
 * 2. B joins. Each replica with subscribers has one recursive watch on the directory (`observer.ts`): one notification,
 *    one read of the one node, one state for all subscribers.
 * 3. A changes its value: as 1. The write is refused when the node is another lease's (T10: `membership.ts`).
 * 4. A leaves: its node is deleted on its own session, if it is its own. Another lease's node: 409. No node: nothing to
 *    do, so it can be repeated.
 * 5. B's process dies. ZooKeeper deletes the node when B's lease ends. Until then a new process that wants the name,
 *    with a lease of its own, gets 409 `conflict` with the old owner: two members of one name would be worse than a
 *    wait of one TTL. A process that keeps its lease token over a restart goes on at once.
 * 6. The last one has gone: the empty directory is removed by housekeeping when it was unused for an hour (ADR 3).
 */
import { NotHolderError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Caller, Requester } from '../../time.js';
import { newAttempt } from '../line/contender.js';
import type { Coordination } from '../coordination.js';
import { decodeMember, describeMember, encodeMember, memberIdOf } from '../membership/member.js';
import { OtherOwner, OWN_DIRECTORY, type Memberships } from '../membership/membership.js';
import { withNewLease, type NewLease, type WithLease } from '../with-lease.js';

export interface Join {
  lease: Lease;
  name: string;
  member: string;
  value: unknown;
  deadline: number;
  requester: Requester;
}

export interface Joined {
  memberId: string;
  fencingToken: number;
  /** Epoch ms. */
  since: number;
  /** Whether it was no member before this request. */
  joined: boolean;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

/**
 * Joins, or changes the value.
 * @throws PosternError `conflict` when another lease has the name, LeaseExpiredError, NoReplyError
 */
export async function joinGroup(
  { layout, granted }: Coordination,
  memberships: Memberships,
  { lease, name, member, value, deadline, requester }: Join,
): Promise<Joined> {
  const { leaseId, principal, label, namespace } = lease;
  const attempt = newAttempt();
  const path = `${layout.group(namespace, name)}/${member}`;
  const put = memberships.put({
    lease,
    path,
    data: encodeMember({ leaseId, principal, label, attempt, ...(value === undefined ? {} : { value }) }),
    isMine: (data) => decodeMember(data)?.attempt === attempt,
    directory: OWN_DIRECTORY,
    deadline,
    requester,
  });
  const { stat, created, expiresAt } = await put.catch((error: unknown) => {
    throw error instanceof OtherOwner ? nameTaken(name, member, error) : error;
  });
  granted.remember(path, leaseId, stat.czxid, false);
  return {
    memberId: memberIdOf(stat),
    fencingToken: stat.czxid,
    since: stat.ctime,
    joined: created,
    expiresAt,
  };
}

export interface FirstJoin extends Omit<Join, 'lease'> {
  requestId: string;
  requester: Caller;
}

/**
 * As `joinGroup`, with a lease that is made for it, or was by an earlier attempt of this request. The member stays for
 * the repetition, whatever becomes of the answer: under another lease it would be in its own way.
 * @throws as `joinGroup` and `withNewLease`
 */
export function joinGroupWithLease(
  context: Coordination,
  memberships: Memberships,
  newLease: NewLease,
  { requestId, ...join }: FirstJoin,
): Promise<WithLease<Joined>> {
  return withNewLease(context, {
    newLease,
    subject: ['group', join.name, join.member],
    requestId,
    deadline: join.deadline,
    requester: join.requester,
    work: (lease) => joinGroup(context, memberships, { ...join, lease }),
    isInVain: () => false,
    endsWhenGone: false,
  });
}

export type Leave = Omit<Join, 'value'>;

/**
 * Leaves; leaving twice does no harm.
 * @throws NotHolderError when another lease has the name, LeaseExpiredError, NoReplyError
 */
export async function leaveGroup(
  { layout, granted }: Coordination,
  memberships: Memberships,
  { lease, name, member, deadline, requester }: Leave,
): Promise<void> {
  const path = `${layout.group(lease.namespace, name)}/${member}`;
  try {
    await memberships.remove({ lease, path, deadline, requester });
  } catch (error) {
    if (error instanceof OtherOwner) throw new NotHolderError(`member "${member}" of group`, name, 'member');
    throw error;
  }
  granted.forget(path, lease.leaseId);
}

function nameTaken(name: string, member: string, { node }: OtherOwner): PosternError {
  const { leaseId, label, since, external } = describeMember(member, node);
  const who = external ? 'a client other than Postern’s' : label === '' ? `lease ${leaseId}` : `"${label}"`;
  return new PosternError(
    'conflict',
    `Member "${member}" of group "${name}" belongs to ${who} since ${new Date(since).toISOString()}; the name is free when that one leaves or its lease ends.`,
    {
      members: {
        name,
        member,
        holder: external ? { external } : { leaseId, label, since: new Date(since).toISOString() },
      },
    },
  );
}
