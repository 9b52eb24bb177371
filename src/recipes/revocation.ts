/**
 * Revocation: a hold is asked back and, when a grace period was given, taken away at its end, whichever replicas are alive then.
 *
 * Guarantee: a hold whose `breakAt` has passed on the ensemble's clock is broken as soon as one replica is connected, exactly that hold and
 *   no later one of the same path. Its lease is told until it ends: first that it is asked (`pending`), then that it lost it (`broken`).
 * Not guaranteed: that the client has noticed when somebody else is granted the lock. Let the resource check the fencing token.
 *
 * Layout, both persistent:
 *   <root>/revocations/<leaseId>/<holdId>                       what was asked, as below: the truth; read by the lease's heartbeats
 *   <root>/pending-revocations/<breakAt or never>.<leaseId>.<holdId>   the list that every replica watches (`revocation-watch.ts`)
 *
 * Step by step, and what a crash after each leaves. Each step is one transaction, so the two nodes never disagree.
 *
 * 1. *Ask*: read the line after a `sync`, then `check` that the hold's node exists, create the record, list it. A crash before leaves nothing
 *    (or the lease's empty directory, which housekeeping removes); after it any replica goes on. The caller whose answer is lost repeats
 *    the request, and finds it asked.
 *    Of two requests for one hold the earlier `breakAt` wins: the record is changed at the version that was read, and its entry in the list
 *    is exchanged, so neither can undo what the other has seen.
 * 2. *Tell*: the list has changed, so every replica wakes once. Streams of that lease look at once; heartbeats read the record anyway.
 * 3. *Break* (`break-hold.ts`): when `breakAt` has passed, every replica tries, some milliseconds apart, and one of them succeeds:
 *    delete the hold's node at the version just read, if its czxid is the one of the record; mark the record `broken`; strike the entry. The next
 *    in line wakes by its watch on the node. A release, or the end of the lease, that comes first makes the transaction fail; then there is
 *    nothing to break, and record and entry go. A repeated acquire that takes the place over in that moment raises the version: it is read
 *    and tried again, for it is the same hold; the acquire finds its node gone and lines up anew.
 * 4. *Forget*: a record whose hold was released goes when its time comes or with housekeeping, and is not told of any more; a `broken` one stays
 *    until its lease has ended.
 *
 * Holders that are no Postern (Curator's InterProcessMutex) are asked in their way: `__REVOKE__` as the data of their node. They are never
 * broken, because they could not learn it and have no fencing token that anybody checks. What happens when one of ours is asked like that is
 * in `foreign-revoke.ts`.
 */
import { PosternError } from '../errors.js';
import type { LineKind } from '../leases/layout.js';
import { isReason, orUnknown, unless } from '../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../zookeeper/operations.js';
import { readRule } from './agreement.js';
import { breakIfDue, ensembleNow } from './break-hold.js';
import { isOwnName, REVOKE_MESSAGE, type Contender } from './contender.js';
import type { Coordination } from './coordination.js';
import { describeContender, type ContenderView } from './describe.js';
import { readLine } from './line-view.js';
import { decodeRevocation, encodeRevocation, pendingName, type RevocationRecord } from './revocation-record.js';

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
}

export interface Revoked {
  /** Epoch ms on the ensemble's clock. Undefined for those that are only asked. */
  holds: { holdId: string | null; breakAt: number | undefined }[];
}

/** So many holders are asked at once. */
const AT_ONCE = 64;
/** A request that meets others for the same hold tries again; so many meet only by a fault. */
const TRIES_MAX = 20;

interface Holder {
  contender: Contender;
  node: NodeData;
  view: ContenderView;
}

/** @throws PosternError `not-holder` when nobody holds it (under that holdId) */
export async function revoke(context: Coordination, request: RevokeRequest): Promise<Revoked> {
  const { kind, name, namespace, holdId, deadline } = request;
  const directory = context.layout.line(kind, namespace, name);
  const { graceMs } = request;
  const breakAt = graceMs === undefined ? undefined : Math.round((await ensembleNow(context, deadline)) + graceMs);
  const line = await readLine(context, directory, deadline, false);
  const rule = await readRule(context.control, kind, directory, deadline);
  const admitted = line.slice(0, rule.holding(line));
  const holds: Revoked['holds'] = [];
  let asked = 0;
  for (let i = 0; i < admitted.length; i += AT_ONCE) {
    const asking = Promise.all(
      admitted.slice(i, i + AT_ONCE).map(async (contender) => {
        const holder = await readHolder(context, directory, contender, deadline);
        if (holder === undefined || (holdId !== undefined && holder.view.holdId !== holdId)) return undefined;
        const hold = holder.view.external
          ? await askForeign(context, directory, holder, deadline)
          : await askBack(context, request, `${directory}/${contender.name}`, holder.view, breakAt);
        if (hold !== undefined) asked += 1;
        return hold;
      }),
    );
    const batch = await orUnknown(asking, () => asked > 0);
    holds.push(...batch.filter((hold) => hold !== undefined));
  }
  if (holds.length === 0)
    throw new PosternError(
      'not-holder',
      `Nobody holds ${kind} "${name}"${holdId === undefined ? '' : ' under this holdId'}.`,
    );
  return { holds };
}

async function readHolder(
  context: Coordination,
  directory: string,
  contender: Contender,
  deadline: number,
): Promise<Holder | undefined> {
  const node = await unless(context.control.getData(`${directory}/${contender.name}`, deadline), 'NO_NODE');
  if (node === undefined) return undefined;
  const view = describeContender(contender, node);
  return view.state === 'granted' ? { contender, node, view } : undefined;
}

/** Asks one hold of ours back. @returns undefined when it is gone */
export async function askBack(
  context: Coordination,
  request: Omit<RevokeRequest, 'holdId'>,
  path: string,
  { leaseId, holdId, fencingToken }: Pick<ContenderView, 'leaseId' | 'holdId' | 'fencingToken'>,
  breakAt: number | undefined,
): Promise<Revoked['holds'][number] | undefined> {
  const { control, layout } = context;
  const { kind, namespace, name, reason, deadline } = request;
  const at = layout.revocation(leaseId, holdId);
  const wanted: RevocationRecord = {
    state: 'pending',
    kind,
    namespace,
    name,
    path,
    czxid: fencingToken,
    ...(breakAt === undefined ? {} : { breakAt }),
    ...(reason === undefined ? {} : { reason }),
  };
  const listed = (record: RevocationRecord): string =>
    `${layout.pendingRevocations}/${pendingName(record.breakAt, leaseId, holdId)}`;
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const node = await unless(control.getData(at, deadline), 'NO_NODE');
    const before = node === undefined ? undefined : decodeRevocation(node.data);
    if (before?.state === 'broken') return undefined;
    const record = before === undefined ? wanted : earlier(before, wanted);
    const check: MultiOperation = { type: 'check', path };
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
      await control.multi([check, ...change], deadline);
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION')) throw error;
      if (isReason(error, 'NO_NODE') && error.failedIndex === 0) return undefined;
      // Somebody else asked in that moment, or the directories are still to be made; `sync`, for the next look must see it.
      await control.ensurePath(layout.pendingRevocations, deadline);
      await control.ensurePath(layout.revocationsOf(leaseId), deadline);
      await control.sync(at, deadline);
      continue;
    }
    if (request.graceMs === 0) await orUnknown(breakIfDue(context, leaseId, holdId, deadline));
    return { holdId, breakAt: record.breakAt };
  }
  throw new PosternError('conflict', `Many requests to revoke ${kind} "${name}" got in each other's way; repeat it.`);
}

/** The earlier `breakAt` wins, with its reason. */
function earlier(before: RevocationRecord, wanted: RevocationRecord): RevocationRecord {
  const wins = (wanted.breakAt ?? Infinity) < (before.breakAt ?? Infinity);
  const [first, second] = wins ? [wanted, before] : [before, wanted];
  const reason = first.reason ?? second.reason;
  return { ...first, ...(reason === undefined ? {} : { reason }) };
}

/** As Curator's Revoker does, but only at the version that was read: a node that is somebody else's by now is left alone. */
async function askForeign(
  { control }: Coordination,
  directory: string,
  { contender, node }: Holder,
  deadline: number,
): Promise<Revoked['holds'][number] | undefined> {
  const asked = { holdId: null, breakAt: undefined };
  // One of ours whose data somebody has written over has been asked already.
  if (isOwnName(contender.name) || node.data.equals(REVOKE_MESSAGE)) return asked;
  try {
    await control.setData(`${directory}/${contender.name}`, REVOKE_MESSAGE, node.stat.version, deadline);
    return asked;
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return undefined;
    throw error;
  }
}
