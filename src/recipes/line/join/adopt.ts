/**
 * Adopts a place: a listing shows a node under the request's guid, made by an earlier attempt of the same request. The
 * lowest of them is the request's place; it is taken over by a version-checked write before anything is answered, so
 * that the earlier attempt can no longer give it up (protocol C1). Nodes above it are removed in a transaction that
 * checks that the place still exists (C6).
 */
import { LeaseExpiredError, StandingConflictError } from '../../../errors.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { NodeData } from '../../../zookeeper/operations.js';
import { multiWithOptional, OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { LAST_SEQUENCE } from '../../../zookeeper/paths.js';
import { deleteContender, deleteTail } from '../candidate-tail.js';
import { decodeRecord, encodeRecord, numberOf, withState, type Contender, type ContenderRecord } from '../contender.js';
import { delayOf } from '../delay/mark.js';
import { isOverwritten, recordForeignRevoke } from '../revocation/foreign.js';
import { downgrade, readerBehind, removeOrphan } from './downgrade.js';
import { LOOK_AGAIN, type Joining, type LookAgain } from './joining.js';
import type { Joined } from './request.js';

/** The node that is adopted, as it was found. */
interface Found {
  path: string;
  node: NodeData;
  /** Undefined where somebody has written over it. */
  before: ContenderRecord | undefined;
  /** Whether it is first in line, or admitted. */
  first: boolean;
  /** Whether it was granted, by whichever attempt. */
  granted: boolean;
}

/** Takes over the lowest of the request's own nodes. */
export async function adopt(
  joining: Joining,
  listed: readonly Contender[],
  own: readonly Contender[],
): Promise<Joined | LookAgain> {
  const { trace, line, request, terms } = joining;
  const mine = own[0] as Contender;
  // Of several with the last number nobody knows which was first.
  if (numberOf(mine) === LAST_SEQUENCE) return joining.giveUpWorn(joining.pathOf(mine));
  const { mode, name } = request;
  if (request.again === true && (await yields(joining, own))) return { how: 'superseded' };
  if (await removeOrphan(joining, mine)) return LOOK_AGAIN;
  const downgraded = mode === 'read' ? await downgrade(joining, listed, own) : undefined;
  if (downgraded === LOOK_AGAIN) return LOOK_AGAIN;
  if (!mine.name.includes(`-${joining.prefix}`)) {
    // Mine was made before the listing was known; whatever the caller wants kept, it is not this.
    if (!(await removeDuplicates(joining, own))) return LOOK_AGAIN;
    trace.wrote = false;
    if (downgraded === 'asked-back')
      throw new StandingConflictError(`The write hold of "${name}" is asked for: release it, it cannot be downgraded.`);
    throw new StandingConflictError(`"${name}" is held, or waited for, ${otherThan(request)} under this requestId.`);
  }
  // An existing place is counted by the agreed limit, whatever this request says.
  await terms.agree();
  try {
    const found = await find(joining, listed, mine);
    const { path, node, first, granted } = found;
    // What this very attempt wrote over a connection that was lost is no earlier grant; what it wrote over may have
    // been one.
    if (granted && found.before?.attempt !== trace.attempt) trace.heldBefore = node.stat.czxid;
    const alreadyHeld = granted && trace.heldBefore === node.stat.czxid;
    const record = await adopted(joining, found);
    const stat = await joining.session.setData(path, encodeRecord(record), node.stat.version, request.hardDeadline);
    trace.wrote = true;
    line.waiters.get(mine.name)?.supersede();
    const removed = await removeDuplicates(joining, own);
    // It may have been downgraded since: then the duplicate must not stay.
    if (!removed && record.downgradable === true) return LOOK_AGAIN;
    return joining.placed(joining.placeAt(mine, stat, record), first || granted, undefined, alreadyHeld);
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return LOOK_AGAIN;
    throw error;
  }
}

/**
 * Who stands again by itself does not know whether its client still waits for it: where another attempt has a place by
 * now, the client does not. Only what this attempt has made goes.
 * @returns whether the place is another attempt's
 */
async function yields(joining: Joining, own: readonly Contender[]): Promise<boolean> {
  const { line, request, session, trace } = joining;
  const zk = session.until(request.hardDeadline);
  const nodes = await Promise.all(own.map((each) => zk.find(joining.pathOf(each))));
  const isMine = (node: NodeData | undefined): boolean =>
    node !== undefined && decodeRecord(node.data)?.attempt === trace.attempt;
  const [lowest] = nodes;
  if (lowest === undefined || isMine(lowest)) return false;
  for (const [i, each] of own.entries()) {
    const node = nodes[i];
    if (node === undefined || !isMine(node)) continue;
    await unless(deleteContender(zk, joining.pathOf(each), node.stat.version), 'NO_NODE', 'BAD_VERSION');
    line.remove(each);
  }
  trace.wrote = false;
  return true;
}

function otherThan({ permits, priority }: Joining['request']): string {
  if (priority !== undefined) return 'with another priority';
  return permits === undefined ? 'in another mode' : 'with another count';
}

/** Reads the node. Where a foreign client has written over a hold its lease is told (`revocation/foreign.ts`). */
async function find(joining: Joining, listed: readonly Contender[], mine: Contender): Promise<Found> {
  const { context, kind, session, request } = joining;
  const { lease, name, permits, hardDeadline } = request;
  const path = joining.pathOf(mine);
  const node = await session.getData(path, hardDeadline);
  const before = decodeRecord(node.data);
  if (before?.ending === true) throw new LeaseExpiredError();
  const first = await isFirst(joining, listed, mine, before);
  // `granted` behind somebody else is what a crash between create and the write of `waiting` leaves.
  // (Not of a semaphore: there nothing is granted before its turn.)
  // Data that somebody has written over do not tell: what may have been answered as held stays held.
  const overwritten = isOverwritten(kind, path, node.data);
  const granted = ((first || permits !== undefined) && before?.state === 'granted') || (first && overwritten);
  if (overwritten && first)
    await recordForeignRevoke(
      context,
      { kind, namespace: lease.namespace, name, path },
      node.stat,
      lease.leaseId,
      hardDeadline,
    );
  return { path, node, before, first, granted };
}

/** The record with which this attempt replaces the one it found. */
async function adopted(joining: Joining, { path, node, before, first, granted }: Found): Promise<ContenderRecord> {
  const { context, kind, line, session, request, record } = joining;
  const { data: asked, delayMs: wanted } = record;
  const grantedAt = granted ? (before?.grantedAt ?? node.stat.ctime) : context.zooKeeperClock.now();
  // A leader changes its value by proclaiming: a campaign that is repeated late must not bring an old one back.
  const leads = kind === 'election' && granted && before !== undefined;
  // A hold keeps the delay that it was granted with; whether it has one is not changed without its mark.
  const delayMs = granted ? await delayOf(session.until(request.hardDeadline), path, node) : wanted;
  const atOnce = first && record.state === 'granted' && line.directory?.delays !== true;
  const kept: ContenderRecord = {
    ...record,
    delayMs: delayMs === 0 ? undefined : delayMs,
    data: leads ? before.data : (asked ?? before?.data),
    candidate: before?.candidate ?? record.candidate,
    // As it was made: whether there is a reader's place behind it.
    downgradable: before === undefined ? record.downgradable : before.downgradable,
    leaseToken: record.leaseToken ?? before?.leaseToken,
    // What another try has turned into a reservation by now stays one.
    reservation: before?.reservation ?? record.reservation,
  };
  // What is not the first stands back before it waits, while somebody is before it (`standBack`).
  const standsBack = before?.state === 'granted' && kept.delayMs === undefined && !line.rule.leads;
  return granted || atOnce || standsBack ? withState(kept, 'granted', { grantedAt }) : joining.waiting(kept);
}

/**
 * Whether the turn of a place that was found has come. What was listed earlier, or put together from that, may still
 * show somebody who has gone: one that is `granted` had its turn before that was written, and one that will not wait
 * for its turn is to be told of it now. Listed in the same session after the node was read, it cannot.
 */
async function isFirst(
  joining: Joining,
  listed: readonly Contender[],
  mine: Contender,
  found: ContenderRecord | undefined,
): Promise<boolean> {
  if (joining.admitted(listed, mine)) return true;
  const { permits, waitMs } = joining.request;
  if (permits !== undefined || (found?.state !== 'granted' && waitMs > 0)) return false;
  return joining.admitted(await joining.list(), mine);
}

/**
 * Removes all of the request's own nodes but the lowest, and only while the lowest exists: at no time is the request
 * without a place.
 * @returns false when one of them had gone, by whomever
 */
export async function removeDuplicates(joining: Joining, own: readonly Contender[]): Promise<boolean> {
  const kept = joining.pathOf(own[0] as Contender);
  let all = true;
  const reader = await readerBehind(joining, own);
  for (const duplicate of own.slice(1)) {
    if (duplicate === reader) continue;
    const path = joining.pathOf(duplicate);
    const removal = new OwnedTransaction<'node' | 'tail'>()
      .add('node', { type: 'check', path: kept }, { type: 'delete', path })
      .add('tail', ...deleteTail(path));
    const removing = multiWithOptional(joining.session.until(joining.request.hardDeadline), removal, 'tail');
    const removed = await unless(
      removing.then(() => true),
      'NO_NODE',
    );
    all &&= removed === true;
  }
  return all;
}
