/**
 * The guard of a write: in one transaction, it is done only while the holder of a fencing token still holds (C19).
 *
 * That a node with this czxid exists proves nothing: it may stand in line and wait. So the line is listed after a
 * `sync`, and the node must be among those that it admits, and say `granted`. Who is admitted stays so while its node
 * exists, so a listing that is old by now errs on the safe side only; and the transaction checks the node at the
 * version just read, so what was read of it is true when the write happens. A paused holder whose lease has ended
 * meanwhile no longer has a node.
 *
 * An election's first in line leads as soon as it is the first, whether it was told or not (ADR 6). Of a read-write
 * lock only a writer may write. Beside a running lock-delay that excludes it nobody of ours holds, whatever its node
 * says (`delay/lock-delay.ts`). Nodes of other clients have no state: where they are admitted, they hold.
 */
import { PosternError } from '../../errors.js';
import type { LineKind } from '../../leases/layout.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { readRule } from './permits/agreement.js';
import { decodeRecord, sortLine, type Contender } from './contender.js';
import { delayBeside, type DelayContext } from './delay/lock-delay.js';
import { readLineDirectory } from './directory.js';
import type { Coordination } from '../coordination.js';

export interface Guard {
  kind: LineKind;
  name: string;
  fencingToken: number;
}

/**
 * The operation that keeps a transaction from happening when the guard's holder holds no more.
 * @throws PosternError `fencing-token-stale`
 */
export async function checkOfGuard(
  context: DelayContext & Pick<Coordination, 'layout'>,
  namespace: string,
  guard: Guard,
  deadline: number,
): Promise<MultiOperation> {
  const zk = context.control.until(deadline);
  const directory = context.layout.line(guard.kind, namespace, guard.name);
  const [, listing, rule] = await Promise.all([
    zk.sync(directory),
    zk.list(directory),
    readRule(zk, guard.kind, directory),
  ]);
  const line = sortLine(listing?.children ?? []);
  const admitted = line.slice(0, rule.holding(line));
  const nodes = await Promise.all(admitted.map(({ name }) => zk.find(`${directory}/${name}`)));
  const delays = listing !== undefined && readLineDirectory(listing.stat).delays;
  const excluding = delays ? await delayBeside(context, zk, directory, line, listing.zxid) : undefined;
  let latest: number | null = null;
  for (const [i, node] of nodes.entries()) {
    if (node === undefined) continue;
    const contender = admitted[i] as Contender;
    const record = decodeRecord(node.data);
    const holds = rule.leads || record?.state !== 'waiting';
    if (!holds || (record !== undefined && excluding !== undefined)) continue;
    latest = node.stat.czxid;
    if (node.stat.czxid !== guard.fencingToken) continue;
    if (guard.kind === 'rwlock' && contender.reads)
      throw stale(guard, latest, 'is that of a reader, who may not write');
    return { type: 'check', path: `${directory}/${contender.name}`, version: node.stat.version };
  }
  throw stale(guard, latest, 'is not that of a present holder');
}

function stale({ kind, name, fencingToken }: Guard, latest: number | null, why: string): PosternError {
  return new PosternError(
    'fencing-token-stale',
    `The fencing token ${fencingToken} of ${kind} "${name}" ${why}; nothing was written.`,
    { members: { kind, name, fencingToken, latestFencingToken: latest } },
  );
}
