/**
 * The guard of a write: it happens only while the holder of a fencing token still holds, in one transaction (C19).
 *
 * That a node with this czxid exists proves nothing: it may stand in line and wait. So the line is listed after a `sync`, and the node must be
 * among those that it admits, and say `granted`. Who is admitted stays so while its node exists, so a listing that is old by
 * now errs on the safe side only; and the transaction checks the node at the version just read, so what was read of it is true when the write
 * happens. A holder that was paused, and whose lease has ended meanwhile, has no node any more.
 *
 * An election's first in line leads as soon as it is the first, whether it was told or not (ADR 6). Of a read-write lock only a writer may
 * write. Nodes of other clients have no state: where they are admitted, they hold.
 */
import { PosternError } from '../errors.js';
import type { LineKind } from '../leases/layout.js';
import { unless } from '../zookeeper/errors.js';
import type { MultiOperation } from '../zookeeper/operations.js';
import { readRule } from './agreement.js';
import { decodeRecord, sortLine, type Contender } from './contender.js';
import type { Coordination } from './coordination.js';

export interface Guard {
  kind: LineKind;
  name: string;
  fencingToken: number;
}

/** The operation that keeps a transaction from happening when the guard's holder holds no more. @throws PosternError `fencing-token-stale` */
export async function checkOfGuard(
  { control, layout }: Pick<Coordination, 'control' | 'layout'>,
  namespace: string,
  guard: Guard,
  deadline: number,
): Promise<MultiOperation> {
  const directory = layout.line(guard.kind, namespace, guard.name);
  const [, listing, rule] = await Promise.all([
    control.sync(directory, deadline),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
    readRule(control, guard.kind, directory, deadline),
  ]);
  const line = sortLine(listing?.children ?? []);
  const admitted = line.slice(0, rule.holding(line));
  const nodes = await Promise.all(
    admitted.map(({ name }) => unless(control.getData(`${directory}/${name}`, deadline), 'NO_NODE')),
  );
  let latest: number | null = null;
  for (const [i, node] of nodes.entries()) {
    if (node === undefined) continue;
    const contender = admitted[i] as Contender;
    const holds = rule.leads || decodeRecord(node.data)?.state !== 'waiting';
    if (!holds) continue;
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
