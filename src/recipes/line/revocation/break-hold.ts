/**
 * Breaks a hold whose time has come, and removes finished revocations from the list: the third and fourth step of
 * `revocation.ts`, which any number of replicas may take at once.
 *
 * A leader that is to make way for a candidate is broken only while that one stands, which the same transaction checks;
 * else it stays, and is asked no more.
 *
 * NO_NODE of the hold proves that it is gone, also from a lagging server: the record was made after the hold, and this
 * server has shown it.
 */
import type { BoundClient } from '../../../zookeeper/bound.js';
import { preciseClock } from '../../../zookeeper/ensemble-time.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../../zookeeper/operations.js';
import { deleteTail, mayHaveReader } from '../candidate-tail.js';
import { decodeRecord } from '../contender.js';
import type { Coordination } from '../../coordination.js';
import { delayOf, deleteMark } from '../delay/mark.js';
import { decodeRevocation, encodeRevocation, pendingName, type RevocationRecord } from './record.js';

/** Everything that can get in between happens once: a release, an adoption, another replica. */
const TRIES_MAX = 10;

/** @returns ms until it is due (Infinity: it is only asked for), or undefined when nothing is left to be done */
export async function breakIfDue(
  context: Coordination,
  leaseId: string,
  holdId: string,
  deadline: number,
): Promise<number | undefined> {
  const { layout, metrics } = context;
  const zk = context.control.until(deadline);
  const at = layout.revocation(leaseId, holdId);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const node = await zk.find(at);
    if (node === undefined) return undefined;
    const record = decodeRevocation(node.data);
    if (record.state === 'broken') return undefined;
    const hold = await zk.find(record.path);
    const entry = `${layout.pendingRevocations}/${pendingName(record.breakAt, leaseId, holdId)}`;
    const stands = hold?.stat.czxid === record.czxid;
    if (stands) {
      const wait = await untilDue(context, record, deadline);
      if (wait > 0) return wait;
    }
    // The record is younger than the successor, and this server has shown it: what is not there is gone.
    const off = record.successor !== undefined && (await zk.exists(record.successor)) === undefined;
    const breaks = stands && !off;
    const delayMs = breaks ? await delayOf(zk, record.path, hold) : 0;
    const tail = breaks ? await tailThere(zk, record.path, mayHaveReader(hold.data)) : [];
    const reservation = breaks ? await reservationThere(zk, layout, record.namespace, hold) : [];
    try {
      const broken = encodeRevocation({ ...record, state: 'broken' });
      await zk.multi(
        breaks
          ? [
              { type: 'delete', path: record.path, version: hold.stat.version },
              ...(delayMs > 0 ? [deleteMark({ path: record.path, czxid: record.czxid })] : []),
              ...tail,
              ...reservation,
              { type: 'setData', path: at, data: broken, version: node.stat.version },
              { type: 'delete', path: entry },
              ...(record.successor === undefined ? [] : [{ type: 'check', path: record.successor } as const]),
            ]
          : [
              { type: 'delete', path: at, version: node.stat.version },
              { type: 'delete', path: entry },
            ],
      );
      if (breaks) metrics.revocationsTotal.inc({ kind: record.kind, outcome: 'broken' });
      return undefined;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
      await zk.sync(at);
    }
  }
  return 0;
}

/** What is deleted with a contender, unless somebody has removed it by hand. See `deleteTail`. */
export async function tailThere(zk: BoundClient, path: string, downgradable?: boolean): Promise<MultiOperation[]> {
  const operations = deleteTail(path, downgradable);
  const there = await Promise.all(operations.map((tail) => zk.exists(tail.path)));
  return operations.filter((_, i) => there[i] !== undefined);
}

/** What is deleted with the place of a reservation: its record (`recipes/reservation`). */
export async function reservationThere(
  zk: BoundClient,
  layout: Coordination['layout'],
  namespace: string,
  { data }: Pick<NodeData, 'data'>,
): Promise<MultiOperation[]> {
  const id = decodeRecord(data)?.reservation?.id;
  if (id === undefined) return [];
  const path = layout.reservation(namespace, id);
  return (await zk.exists(path)) === undefined ? [] : [{ type: 'delete', path }];
}

/** Never too short: what a grace period promises is that nothing is broken before. */
async function untilDue(context: Coordination, { breakAt }: RevocationRecord, deadline: number): Promise<number> {
  return breakAt === undefined ? Infinity : breakAt - (await preciseClock(context, deadline)).earliest();
}
