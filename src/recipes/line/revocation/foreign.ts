/**
 * Curator's way to ask a hold back, used on one of ours: somebody writes `__REVOKE__` over the data of a contender's
 * node. That is understood as a revocation without grace period: the lease is told, and nothing is taken away.
 *
 * The write also destroys what the data said: state, attempt, whose it is. What must not come of that, and why it does
 * not:
 *
 * - *A hold is given away.* Holding is standing at the head of the line; the data only tell a hold from a place on its
 *   way, and what cannot be read counts as a hold. A release deletes whatever the data are; so does the end of the
 *   lease.
 * - *A hold is given back that the client was told of.* A repeated request that finds its own node overwritten cannot
 *   know whether an earlier answer was delivered: it takes it for held (`alreadyHeld`), so that it is not given back
 *   (`join/adopt.ts`).
 * - *A waiting request loses its place.* Its next write fails on the version. When the node is exactly one version on
 *   and says `__REVOKE__`, nobody but that writer was there: the place is still this attempt's, and it writes again
 *   (`place.ts`). More versions on, another attempt may have it; then it answers 409 `conflict`, and the repeated
 *   request takes the place up.
 * - *Nobody knows whose it is.* The session that owns the node tells. When the lease looks at what it holds, or else
 *   with the next round of housekeeping, the revocation is recorded, and then the data are written anew,
 *   version-checked. A crash in between repeats the first, which changes nothing.
 *
 * What stays: a place that was overwritten and whose request is gone counts as a hold as long as its lease lives, or
 * until the request is repeated.
 */
import type { LineKind } from '../../../leases/layout.js';
import type { LeaseRecord } from '../../../leases/records.js';
import type { Kind } from '../../../metrics/metrics.js';
import { unless } from '../../../zookeeper/errors.js';
import type { NodeData, Stat } from '../../../zookeeper/operations.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { baseName, parentOf } from '../../../zookeeper/paths.js';
import { delayOf } from '../delay/mark.js';
import {
  downgradedNameOf,
  encodeRecord,
  isOwnName,
  newAttempt,
  ownHoldId,
  REVOKE_MESSAGE,
  type ContenderRecord,
} from '../contender.js';
import type { Coordination } from '../../coordination.js';
import { askBack } from './revocation.js';

const REASON = 'Asked by a client other than Postern.';

export interface OverwrittenHold {
  kind: LineKind;
  namespace: string;
  name: string;
  path: string;
}

/**
 * Of locks and read-write locks, where standing first is holding; the permits of a semaphore are granted by its data.
 */
export function isOverwritten(kind: Kind, path: string, data: Buffer): boolean {
  return (kind === 'lock' || kind === 'rwlock') && isOwnName(baseName(path)) && data.equals(REVOKE_MESSAGE);
}

/** Tells the lease. */
export async function recordForeignRevoke(
  context: Coordination,
  { kind, namespace, name, path }: OverwrittenHold,
  { czxid }: Stat,
  leaseId: string,
  deadline: number,
): Promise<void> {
  const holdId = ownHoldId(baseName(path), czxid) as string;
  const request = { kind, namespace, name, reason: REASON, graceMs: undefined, deadline };
  await askBack(context, request, path, { leaseId, holdId, fencingToken: czxid }, undefined);
}

/** Tells the lease, and makes the node readable again. The line must admit the node. @returns what its data say now */
export async function heedForeignRevoke(
  context: Coordination,
  { kind, namespace, name, path }: OverwrittenHold,
  node: Pick<NodeData, 'data' | 'stat'>,
  lease: LeaseRecord,
  deadline: number,
): Promise<ContenderRecord> {
  const { leaseId, principal, label, token } = lease;
  const { stat } = node;
  const zk = context.control.until(deadline);
  const delayMs = await delayOf(zk, path, node);
  const record: ContenderRecord = {
    state: 'granted',
    attempt: newAttempt(),
    leaseId,
    principal,
    label,
    requestId: '',
    grantedAt: stat.ctime,
    ...(delayMs > 0 ? { delayMs } : {}),
    // If it was acquired together with its lease, the repeated call looks for the token here.
    leaseToken: token,
    downgradable: await hasReader(zk, path, stat.czxid),
  };
  await recordForeignRevoke(context, { kind, namespace, name, path }, stat, leaseId, deadline);
  await unless(zk.set(path, encodeRecord(record), stat.version), 'NO_NODE', 'BAD_VERSION');
  return record;
}

/**
 * As housekeeping does it, which does not know whose the node is: walks through the leases of the namespace. Rare, and
 * worth it then.
 */
export async function heedIfOverwritten(context: Coordination, hold: OverwrittenHold, deadline: number): Promise<void> {
  if (!isOwnName(baseName(hold.path))) return;
  const node = await context.control.until(deadline).find(hold.path);
  if (node === undefined || !isOverwritten(hold.kind, hold.path, node.data)) return;
  const lease = await context.leases.records.findByOwner(hold.namespace, node.stat.ephemeralOwner, deadline);
  if (lease !== undefined) await heedForeignRevoke(context, hold, node, lease, deadline);
}

/** Whether a reader's place was made together with it, which goes with it. */
async function hasReader(zk: BoundClient, path: string, czxid: number): Promise<true | undefined> {
  const name = downgradedNameOf(baseName(path));
  const reader = name === undefined ? undefined : await zk.exists(`${parentOf(path)}/${name}`);
  return reader?.czxid === czxid ? true : undefined;
}
