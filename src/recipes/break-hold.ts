/**
 * Breaking a hold whose time has come, and striking from the list what is over: the third and fourth step of `revocation.ts`, which any
 * number of replicas may take at once.
 *
 * NO_NODE of the hold proves that it is gone, also from a lagging server: the record was made after the hold, and this server has shown it.
 */
import { isReason, unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import { delayOf, deleteMark } from './delay-mark.js';
import { decodeRevocation, encodeRevocation, pendingName, type RevocationRecord } from './revocation-record.js';

/** Everything that can get in between happens once: a release, an adoption, another replica. */
const TRIES_MAX = 10;

/** @returns ms until it is due (Infinity: it is only asked for), or undefined when nothing is left to be done */
export async function breakIfDue(
  context: Coordination,
  leaseId: string,
  holdId: string,
  deadline: number,
): Promise<number | undefined> {
  const { control, layout } = context;
  const at = layout.revocation(leaseId, holdId);
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const node = await unless(control.getData(at, deadline), 'NO_NODE');
    if (node === undefined) return undefined;
    const record = decodeRevocation(node.data);
    if (record.state === 'broken') return undefined;
    const hold = await unless(control.getData(record.path, deadline), 'NO_NODE');
    const entry = `${layout.pendingRevocations}/${pendingName(record.breakAt, leaseId, holdId)}`;
    const stands = hold?.stat.czxid === record.czxid;
    if (stands) {
      const wait = await untilDue(context, record, deadline);
      if (wait > 0) return wait;
    }
    const delayMs = stands ? await delayOf(control, record.path, hold, deadline) : 0;
    try {
      const broken = encodeRevocation({ ...record, state: 'broken' });
      await control.multi(
        stands
          ? [
              { type: 'delete', path: record.path, version: hold.stat.version },
              ...(delayMs > 0 ? [deleteMark({ path: record.path, czxid: record.czxid })] : []),
              { type: 'setData', path: at, data: broken, version: node.stat.version },
              { type: 'delete', path: entry },
            ]
          : [
              { type: 'delete', path: at, version: node.stat.version },
              { type: 'delete', path: entry },
            ],
        deadline,
      );
      return undefined;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
      await control.sync(at, deadline);
    }
  }
  return 0;
}

async function untilDue(context: Coordination, { breakAt }: RevocationRecord, deadline: number): Promise<number> {
  return breakAt === undefined ? Infinity : breakAt - (await ensembleNow(context, deadline));
}

/** Epoch ms on the ensemble's clock. A replica that has not written yet does not know it, and must not go by its own (protocol T9). */
export async function ensembleNow(
  { control, layout, zooKeeperClock }: Coordination,
  deadline: number,
): Promise<number> {
  if (!zooKeeperClock.known) {
    await control.ensurePath(layout.pendingRevocations, deadline);
    await control.setData(layout.pendingRevocations, new Uint8Array(0), undefined, deadline);
  }
  return zooKeeperClock.now();
}
