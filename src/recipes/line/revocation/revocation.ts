/**
 * Revocation: a hold is asked back and, if a grace period was given, taken away at its end, whichever replicas are
 * alive then.
 *
 * Guarantee: a hold whose `breakAt` has passed on the ensemble's clock is broken as soon as one replica is connected,
 *   exactly that hold and no later one of the same path. Its lease is told until it ends: first that it is asked
 *   (`pending`), then that it lost it (`broken`).
 * Not guaranteed: that the client has noticed when somebody else is granted the lock. Let the resource check the
 * fencing token.
 *
 * Layout, both persistent:
 *   <root>/revocations/<leaseId>/<holdId>                       what was asked, as below: the truth; read by the
 *                                                               lease's heartbeats
 *   <root>/pending-revocations/<breakAt or never>.<leaseId>.<holdId>   the list that every replica watches (`watch.ts`)
 *
 * Step by step, and what a crash after each leaves. Each step is one transaction, so the two nodes never disagree.
 *
 * 1. *Ask*: read the line after a `sync`, then `check` that the hold's node exists, create the record, list it. A crash
 *    before leaves nothing (or the lease's empty directory, which housekeeping removes); after it any replica goes on.
 *    The caller whose answer is lost repeats the request, and finds it asked. Of two requests for one hold the earlier
 *    `breakAt` wins: the record is changed at the version that was read, and its entry in the list is exchanged, so
 *    neither can undo what the other has seen.
 * 2. *Tell*: the list has changed, so every replica wakes once. Streams of that lease look at once; heartbeats read the
 *    record anyway.
 * 3. *Break* (`break-hold.ts`): when `breakAt` has passed, every replica tries, some milliseconds apart, and one of
 *    them succeeds: delete the hold's node at the version just read, if its czxid is the one of the record; mark the
 *    record `broken`; strike the entry. The next in line wakes by its watch on the node. A release, or the end of the
 *    lease, that comes first makes the transaction fail; then there is nothing to break, and record and entry go. A
 *    repeated acquire that takes the place over in that moment raises the version: it is read and tried again, for it
 *    is the same hold; the acquire finds its node gone and lines up anew.
 * 4. *Forget*: a record whose hold was released goes when its time comes or with housekeeping, and is not told of any
 *    more; a `broken` one stays until its lease has ended.
 *
 * Holders that are no Postern (Curator's InterProcessMutex) are asked in their way: `__REVOKE__` as the data of their
 * node. They are never broken, because they could not learn it and have no fencing token that anybody checks. A leader
 * that is no Postern has no such way (the data of a LeaderLatch is its id), and a node that belongs to no session has
 * nobody behind it: both are refused. What happens when one of ours is asked like that is in `foreign.ts`.
 */
import { PosternError, StandingConflictError } from '../../../errors.js';
import type { LineKind } from '../../../leases/layout.js';
import type { Awaited, Requester } from '../../../time.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { preciseClock } from '../../../zookeeper/ensemble-time.js';
import { isReason, mayBeApplied, orUnknown } from '../../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../../zookeeper/operations.js';
import { readRule } from '../permits/agreement.js';
import { breakIfDue } from './break-hold.js';
import { isOwnName, REVOKE_MESSAGE, type Contender } from '../contender.js';
import type { Coordination } from '../../coordination.js';
import { describeContender, type ContenderView } from '../describe.js';
import { readLine } from '../view.js';
import { decodeRevocation, encodeRevocation, pendingName, type RevocationRecord } from './record.js';

export interface RevokeRequest {
  kind: LineKind;
  namespace: string;
  name: string;
  /** Only this hold; without it all of them. */
  holdId: string | undefined;
  reason: string | undefined;
  /** After which the hold is broken; without it it is asked for, and never taken. */
  graceMs: number | undefined;
  deadline: number;
  requester: Requester;
}

export interface Revoked {
  /** Epoch ms on the ensemble's clock. Undefined for those that are only asked. */
  holds: { holdId: string | null; breakAt: number | undefined }[];
}

/** So many holders are asked at once. */
const AT_ONCE = 64;
/** A request that meets others for the same hold tries again; so many meet only by a fault. */
const TRIES_MAX = 20;

/** What is done in the transaction that asks a leader to make way for a candidate (`election/transfer.ts`). */
export interface Succession {
  /** Path of the candidate's node. */
  successor: string;
  operations: readonly MultiOperation[];
}

interface Holder {
  contender: Contender;
  node: NodeData;
  view: ContenderView;
}

/**
 * @throws PosternError `not-holder` when nobody holds it (under that holdId), `conflict` when nobody of those who do
 *   can be asked
 */
export async function revoke(context: Coordination, request: RevokeRequest): Promise<Revoked> {
  const { kind, name, namespace, holdId, deadline } = request;
  const directory = context.layout.line(kind, namespace, name);
  const { graceMs } = request;
  const breakAt = graceMs === undefined ? undefined : await endOfGrace(context, graceMs, deadline);
  const zk = context.control.until(deadline);
  const line = await zk.fresh(() => readLine(zk, directory));
  const rule = await readRule(zk, kind, directory);
  const admitted = line.slice(0, rule.holding(line));
  const holds: Revoked['holds'] = [];
  const deaf: Holder[] = [];
  let next: ContenderView | undefined;
  let asked = 0;
  for (let i = 0; i < admitted.length; i += AT_ONCE) {
    const asking = allAnswered(
      admitted.slice(i, i + AT_ONCE).map(async (contender) => {
        const holder = await readAdmitted(zk, directory, contender);
        // The first in line of an election leads, whether it was told or not.
        if (holder?.view.state === 'waiting' && !rule.leads) {
          next ??= holder.view;
          return undefined;
        }
        if (holder === undefined || (holdId !== undefined && holder.view.holdId !== holdId)) return undefined;
        if (isDeaf(kind, holder)) {
          deaf.push(holder);
          return undefined;
        }
        const hold = holder.view.external
          ? await askForeign(context, directory, holder, request)
          : await askBack(context, request, `${directory}/${contender.name}`, holder.view, breakAt);
        if (hold !== undefined) asked += 1;
        return hold;
      }),
    );
    const batch = await orUnknown(asking, () => asked > 0);
    holds.push(...batch.filter((hold) => hold !== undefined));
  }
  const [unasked] = deaf;
  if (holds.length === 0 && unasked !== undefined) throw cannotBeAsked(request, directory, unasked);
  if (holds.length === 0)
    throw new PosternError(
      'not-holder',
      `Nobody holds ${kind} "${name}"${holdId === undefined ? '' : ' under this holdId'}.${notTakenUp(next)}`,
    );
  return { holds };
}

/** Waits for every one, so that none is still at work when the answer says that nothing was done. */
async function allAnswered<T>(asking: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(asking);
  const failures = settled.filter((result) => result.status === 'rejected').map(({ reason }) => reason as unknown);
  if (failures.length > 0) throw failures.find(mayBeApplied) ?? failures[0];
  return Promise.all(asking);
}

/** Epoch ms on the ensemble's clock; no earlier than so long from now, however well that is known. */
export async function endOfGrace(context: Coordination, graceMs: number, deadline: number): Promise<number> {
  const clock = await preciseClock(context, deadline);
  return graceMs === 0 ? Math.floor(clock.earliest()) : Math.ceil(clock.latest() + graceMs);
}

/** Whether nobody would read the request. */
function isDeaf(kind: LineKind, { node, view }: Holder): boolean {
  return view.external && (kind === 'election' || node.stat.ephemeralOwner === 0n);
}

export function cannotBeAsked(
  { kind, name }: Pick<RevokeRequest, 'kind' | 'name'>,
  directory: string,
  { contender, node }: Pick<Holder, 'contender' | 'node'>,
): PosternError {
  const why =
    node.stat.ephemeralOwner === 0n
      ? 'belongs to no session, so nobody is there to be asked, and it does not go by itself: break it if it is left over'
      : 'is the leader, and has no way to be asked: it resigns, or leads until its session ends';
  return new StandingConflictError(
    `The node ${directory}/${contender.name} in the line of ${kind} "${name}" was made by a client other than Postern and ${why}.`,
    { name, holder: { leaseId: null, label: null, external: true } },
  );
}

function notTakenUp(next: ContenderView | undefined): string {
  return next === undefined ? '' : ` Lease ${next.leaseId} is first in line, and has not taken it up yet.`;
}

async function readAdmitted(zk: BoundClient, directory: string, contender: Contender): Promise<Holder | undefined> {
  const node = await zk.find(`${directory}/${contender.name}`);
  if (node === undefined) return undefined;
  return { contender, node, view: describeContender(contender, node) };
}

type AskRequest = Omit<RevokeRequest, 'holdId' | 'requester'> &
  Partial<Pick<RevokeRequest, 'requester'>> & { succession?: Succession };

function recordOf(
  { kind, namespace, name, reason, succession }: AskRequest,
  hold: Pick<RevocationRecord, 'path' | 'czxid'>,
  breakAt: number | undefined,
): RevocationRecord {
  return {
    state: 'pending',
    kind,
    namespace,
    name,
    ...hold,
    ...(breakAt === undefined ? {} : { breakAt }),
    ...(reason === undefined ? {} : { reason }),
    ...(succession === undefined ? {} : { successor: succession.successor }),
  };
}

/** Asks one hold of ours back. @returns undefined when it is gone, or one of those that make way with it */
export async function askBack(
  context: Coordination,
  request: AskRequest,
  path: string,
  { leaseId, holdId, fencingToken }: Pick<ContenderView, 'leaseId' | 'holdId' | 'fencingToken'>,
  breakAt: number | undefined,
): Promise<Revoked['holds'][number] | undefined> {
  const { control, layout } = context;
  const { kind, name, deadline, requester, succession } = request;
  const zk = (requester === undefined ? control : control.writingFor(requester)).until(deadline);
  const at = layout.revocation(leaseId, holdId);
  const wanted = recordOf(request, { path, czxid: fencingToken }, breakAt);
  const listed = (record: RevocationRecord): string =>
    `${layout.pendingRevocations}/${pendingName(record.breakAt, leaseId, holdId)}`;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const node = await zk.find(at);
    const before = node === undefined ? undefined : decodeRevocation(node.data);
    if (before?.state === 'broken') return undefined;
    const record = before === undefined ? wanted : earlier(before, wanted);
    const required: MultiOperation[] = [{ type: 'check', path }, ...(succession?.operations ?? [])];
    const change: MultiOperation[] =
      node === undefined || before === undefined
        ? [
            { type: 'create', path: at, data: encodeRevocation(record) },
            { type: 'create', path: listed(record) },
          ]
        : [
            { type: 'setData', path: at, data: encodeRevocation(record), version: node.stat.version },
            ...(record.breakAt === before.breakAt
              ? []
              : ([
                  { type: 'delete', path: listed(before) },
                  { type: 'create', path: listed(record) },
                ] as const)),
          ];
    try {
      await zk.multi([...required, ...change]);
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION')) throw error;
      if (isReason(error, 'NO_NODE', 'BAD_VERSION') && (error.failedIndex ?? Infinity) < required.length)
        return undefined;
      // Somebody else asked at that moment, or directories are missing; the next look must see it, hence the `sync`.
      await zk.ensure(layout.pendingRevocations);
      await zk.ensure(layout.revocationsOf(leaseId));
      await zk.sync(at);
      continue;
    }
    if (request.graceMs === 0) await orUnknown(breakIfDue(context, leaseId, holdId, deadline));
    return { holdId, breakAt: record.breakAt };
  }
  throw new PosternError('conflict', `Many requests to revoke ${kind} "${name}" got in each other's way; repeat it.`);
}

/**
 * The earlier `breakAt` wins, with its reason. A leader whose hold is to be broken in any case makes way to nobody in
 * particular; of two candidates that it is to make way for, the one that was named last is next in line.
 */
function earlier(before: RevocationRecord, wanted: RevocationRecord): RevocationRecord {
  const wins = (wanted.breakAt ?? Infinity) < (before.breakAt ?? Infinity);
  const [{ successor: _, ...first }, second] = wins ? [wanted, before] : [before, wanted];
  const reason = first.reason ?? second.reason;
  const inAnyCase = [before, wanted].some((one) => one.breakAt !== undefined && one.successor === undefined);
  const successor = inAnyCase ? undefined : (wanted.successor ?? before.successor);
  return {
    ...first,
    ...(reason === undefined ? {} : { reason }),
    ...(successor === undefined ? {} : { successor }),
  };
}

/**
 * As Curator's Revoker does, but only at the version that was read: a node that is somebody else's by now is left
 * alone.
 */
async function askForeign(
  { control }: Coordination,
  directory: string,
  { contender, node }: Holder,
  { deadline, requester }: Awaited,
): Promise<Revoked['holds'][number] | undefined> {
  const asked = { holdId: null, breakAt: undefined };
  // One of ours whose data somebody has written over has been asked already.
  if (isOwnName(contender.name) || node.data.equals(REVOKE_MESSAGE)) return asked;
  try {
    await control
      .writingFor(requester)
      .until(deadline)
      .set(`${directory}/${contender.name}`, REVOKE_MESSAGE, node.stat.version);
    return asked;
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return undefined;
    throw error;
  }
}
