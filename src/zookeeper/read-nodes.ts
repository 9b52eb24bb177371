/** Reads many nodes in few requests. */
import { PosternError } from '../errors.js';
import type { BoundClient } from './bound.js';
import type { ByteBudget } from './byte-budget.js';
import { zooKeeperReason } from './errors.js';
import type { NodeData } from './operations.js';

/** With values of 5 KiB the answer stays well below ZooKeeper's limit of 1 MiB. */
const AT_ONCE = 100;
const NODE_BYTES = 5 * 1024;
const BATCH_BYTES = AT_ONCE * NODE_BYTES;
/** Smaller readings are not counted, as other small answers are not: they do not wait behind large ones. */
const SMALL_BYTES = 64 * 1024;

export type ReadNode = Pick<NodeData, 'data' | 'stat'>;

/**
 * In the order of the paths; undefined where there is no node.
 * @param atOnce nodes per request: more if they are small
 */
export async function readNodes(
  zk: BoundClient,
  paths: readonly string[],
  atOnce = AT_ONCE,
): Promise<(ReadNode | undefined)[]> {
  const starts = startsOf(paths, atOnce);
  const batches = await Promise.all(
    starts.map((from) => readBatch(zk, paths.slice(from, from + atOnce), (node) => node)),
  );
  return batches.flat();
}

/**
 * As `readNodes`, for any number of nodes of which only parts are needed: within the connection's budget for large
 * readings.
 * @param budget of that connection
 * @param keep called for each as it arrives; only its results are kept until the last one has come
 * @param nodeBytes the most that one of them has
 */
export async function readOfMany<T>(
  zk: BoundClient,
  budget: ByteBudget,
  paths: readonly string[],
  keep: (node: ReadNode, index: number) => T,
  nodeBytes = NODE_BYTES,
): Promise<(T | undefined)[]> {
  const atOnce = Math.max(1, Math.floor(BATCH_BYTES / nodeBytes));
  const read = (from: number): Promise<(T | undefined)[]> => {
    const batch = paths.slice(from, from + atOnce);
    const reading = (): Promise<(T | undefined)[]> => readBatch(zk, batch, (node, i) => keep(node, from + i));
    if (paths.length * nodeBytes <= SMALL_BYTES) return reading();
    return budget.spend(batch.length * nodeBytes, zk.deadline, reading);
  };
  const batches = await Promise.all(startsOf(paths, atOnce).map(read));
  return batches.flat();
}

function startsOf(paths: readonly string[], atOnce: number): number[] {
  return Array.from({ length: Math.ceil(paths.length / atOnce) }, (_, i) => i * atOnce);
}

async function readBatch<T>(
  zk: BoundClient,
  paths: readonly string[],
  keep: (node: ReadNode, index: number) => T,
): Promise<(T | undefined)[]> {
  const { results } = await zk.multiRead(paths.map((path) => ({ type: 'getData', path })));
  return results.map((result, i) => {
    if ('data' in result) return keep(result, i);
    const reason = 'error' in result ? zooKeeperReason(result.error) : 'UNKNOWN';
    if (reason === 'NO_NODE') return undefined;
    throw new PosternError('zookeeper-error', `ZooKeeper answered ${reason} to a read of ${paths[i]}.`);
  });
}
