/**
 * Reads what is remembered of a name, and which of its attempts run.
 *
 * An attempt runs while its lease's own node is there. The record was written in a transaction that checked that node,
 * so whoever reads the record, and behind it on the same session no such node, knows that the lease has ended: an ended
 * lease never comes back. That the node is there may be old news from a server that lags; so what a refusal is based on
 * is read behind a quorum.
 */
import type { Layout } from '../../leases/layout.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { isUnfinished, parseRuns, viewOf, type RunRecord, type RunRef, type RunView } from './run.js';

/** The ids of the leases of unfinished attempts that live. */
export async function livingOf(
  zk: BoundClient,
  layout: Layout,
  namespace: string,
  runs: readonly RunRecord[],
): Promise<ReadonlySet<string>> {
  const ids = [...new Set(runs.filter(isUnfinished).map(({ leaseId }) => leaseId))];
  if (ids.length === 0) return new Set();
  const nodes = await readNodes(
    zk,
    ids.map((id) => layout.lease(namespace, id)),
  );
  return new Set(ids.filter((_, i) => nodes[i] !== undefined));
}

export interface RunsNode {
  readonly node: NodeData | undefined;
  readonly living: ReadonlySet<string>;
}

/** From the connected server, without a quorum. */
export async function readRunsNode(
  zk: BoundClient,
  layout: Layout,
  { namespace, name, path }: RunRef,
): Promise<RunsNode> {
  const node = await zk.find(path);
  const runs = node === undefined ? [] : (parseRuns(name, node.data) ?? []);
  return { node, living: await livingOf(zk, layout, namespace, runs) };
}

/** As `readRunsNode`, as it is shown. */
export async function readRunsStale(zk: BoundClient, layout: Layout, ref: RunRef): Promise<RunView> {
  const { node, living } = await readRunsNode(zk, layout, ref);
  return viewOf(ref.name, node, living);
}
