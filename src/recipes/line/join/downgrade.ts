/**
 * Downgrade: the holder of a write lock becomes a reader, and no other writer comes in between.
 *
 * A node's name says whether it reads, and cannot change; and nobody may ever be put in front of somebody who waits
 * (`rule.ts`: replicas and other clients ask only whether those before them have gone). So the reader's place is made
 * together with the writer's, in one transaction and with the next number, while both are the last in line:
 *
 *   _c_<guid>-__WRIT__<n>       may downgrade (`downgradable` in its record)
 *   _c_<guid>-__READ__<n + 1>   waits, and its wait is over: without its writer it is abandoned
 *
 * The two have one czxid, hence one fencing token, lower than that of anybody behind them.
 *
 * 1. *Downgrade*, on the lease's session, in one transaction: write `granted` to the reader's place, delete the
 *    writer's, each at the version that was read, and move the mark of a lock-delay. Writers behind wait for the
 *    reader's node as they did before; readers behind are admitted by the deletion.
 * 2. A crash before it leaves the writer, after it the reader. A repetition finds the reader's place granted, and
 *    answers that, as any repeated acquire.
 * 3. Whoever deletes the writer's node otherwise (release, give-up) deletes the reader's too. So does
 *    a break. Foreign clients and older replicas do not: what they leave is abandoned, and those behind it, or the
 *    next request under its guid, remove it.
 * 4. A hold that is asked for is not downgraded: it has to be released. The transaction fails when somebody has asked,
 *    or has broken it. Who asks later finds it gone, and asks the reader.
 * 5. A blind create of the same request stands behind the two, and is removed by the repetition, as any duplicate.
 */
import { unless } from '../../../zookeeper/errors.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import {
  decodeRecord,
  downgradedNameOf,
  encodeRecord,
  isPrepared,
  nodePrefix,
  ownHoldId,
  REVOKE_MESSAGE,
  withState,
  type Contender,
  type ContenderRecord,
} from '../contender.js';
import { createMark, deleteMark, delayOf } from '../delay/mark.js';
import { LOOK_AGAIN, type Joining, type LookAgain } from './joining.js';

/** To be made in the transaction that makes the writer, right after it. */
export function createReader(directory: string, guid: string, record: ContenderRecord): MultiOperation {
  const reader = { ...withState(record, 'waiting', { waitUntil: 0 }), downgradable: undefined };
  return {
    type: 'create',
    path: `${directory}/${nodePrefix(guid, '__READ__')}`,
    data: encodeRecord(reader),
    mode: 'ephemeral-sequential',
  };
}

/** Of a request's own nodes, the reader's place that was made together with the first, which writes. */
export async function readerBehind(joining: Joining, own: readonly Contender[]): Promise<Contender | undefined> {
  const [writer] = own;
  const name = writer === undefined ? undefined : downgradedNameOf(writer.name);
  const reader = own.find((contender) => contender.name === name);
  if (writer === undefined || reader === undefined) return undefined;
  const zk = joining.session.until(joining.request.hardDeadline);
  const [ofWriter, ofReader] = await Promise.all([writer, reader].map((one) => zk.exists(joining.pathOf(one))));
  return ofWriter !== undefined && ofWriter.czxid === ofReader?.czxid ? reader : undefined;
}

/**
 * Makes the hold of the request's writer one of its reader's place.
 * @returns undefined when the request has no write hold that may be downgraded; `asked-back` when it has, but is to
 *   give it back; otherwise the next listing tells, and a reader's place in it is answered as any repeated acquire
 */
export async function downgrade(
  joining: Joining,
  listed: readonly Contender[],
  own: readonly Contender[],
): Promise<LookAgain | 'asked-back' | undefined> {
  const { context, line, request, session, trace } = joining;
  const [writer] = own;
  const reader = await readerBehind(joining, own);
  if (writer === undefined || reader === undefined || !joining.admitted(listed, writer)) return undefined;
  const zk = session.until(request.hardDeadline);
  const [path, readerPath] = [joining.pathOf(writer), joining.pathOf(reader)];
  const [held, prepared] = await Promise.all([zk.find(path), zk.find(readerPath)]);
  const before = held === undefined ? undefined : decodeRecord(held.data);
  if (held === undefined || prepared === undefined) return LOOK_AGAIN;
  if (before?.state !== 'granted' || before.ending === true) return undefined;
  const { czxid, version } = held.stat;
  const notAsked = await notAskedBack(joining, ownHoldId(writer.name, czxid) as string);
  // Curator's clients ask the reader in front of them, which is the reserved place.
  if (notAsked === undefined || prepared.data.equals(REVOKE_MESSAGE)) return 'asked-back';
  const delayMs = await delayOf(zk, path, held);
  const record: ContenderRecord = { ...before, attempt: trace.attempt, downgradable: undefined };
  const marks = delayMs > 0 ? [deleteMark({ path, czxid }), createMark({ path: readerPath, czxid }, delayMs)] : [];
  // Whatever becomes of this request: it was a hold before.
  trace.heldBefore = czxid;
  const done = await unless(
    session.multi(
      [
        { type: 'setData', path: readerPath, data: encodeRecord(record), version: prepared.stat.version },
        { type: 'delete', path, version },
        ...marks,
        ...notAsked,
      ],
      request.hardDeadline,
    ),
    'NO_NODE',
    'BAD_VERSION',
    'NODE_EXISTS',
  );
  if (done === undefined) return LOOK_AGAIN;
  context.granted.forget(path, request.lease.leaseId);
  line.waiters.get(writer.name)?.supersede();
  line.remove(writer);
  return LOOK_AGAIN;
}

/**
 * What succeeds in a transaction only while nobody has asked for the hold: makes the node of its revocation, and those
 * above it that are missing, and removes them. @returns undefined when somebody has
 */
async function notAskedBack(
  { context, request, session }: Joining,
  holdId: string,
): Promise<MultiOperation[] | undefined> {
  const { layout } = context;
  const { leaseId } = request.lease;
  const zk = session.until(request.hardDeadline);
  const paths = [layout.revocations, layout.revocationsOf(leaseId), layout.revocation(leaseId, holdId)];
  const there = await Promise.all(paths.map((path) => zk.exists(path)));
  const missing = paths.filter((_, i) => there[i] === undefined);
  if (missing.length === 0) return undefined;
  return [
    ...missing.map((path): MultiOperation => ({ type: 'create', path })),
    ...missing.toReversed().map((path): MultiOperation => ({ type: 'delete', path })),
  ];
}

/** Removes a reader's place whose writer went without it. @returns whether it was one */
export async function removeOrphan(joining: Joining, first: Contender): Promise<boolean> {
  if (!first.reads) return false;
  const zk = joining.session.until(joining.request.hardDeadline);
  const node = await zk.find(joining.pathOf(first));
  const record = node === undefined ? undefined : decodeRecord(node.data);
  if (node === undefined || record === undefined || !isPrepared(record)) return false;
  await unless(zk.remove(joining.pathOf(first), node.stat.version), 'NO_NODE', 'BAD_VERSION');
  return true;
}
