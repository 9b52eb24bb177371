/**
 * Reads several keys as they were at one moment (C45).
 *
 * All reads of one `multiRead` see one state: a server of ZooKeeper applies no transaction while it carries out a read
 * (a standalone one has one thread for both). So it takes one request, however often others write, and nothing to
 * repeat. Reading the keys one by one, and again until their versions stay the same, would need no such property, but
 * would not end while somebody writes all the time.
 *
 * The answer to a `multiRead` has no bound of its own, so the sizes are looked at first, and bytes are reserved for
 * them: for few, which most configurations are, and if that is not enough for as many as one answer may have. Between
 * the look and the reading values may grow; `READ_KEYS_MAX` of the largest are still a reply that the connection takes.
 *
 * Source:  org.apache.zookeeper.server.quorum.CommitProcessor, "no read requests to be processed in parallel with write
 *          requests"; FinalRequestProcessor, `OpCode.multiRead`.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import { decodeNode, type ConfigValue } from './entry.js';

/** Of the largest values they have 61 MB: less than a frame may have (`connection/frames.ts`). */
export const READ_KEYS_MAX = 64;
/** Of the values in one answer. The largest single one always fits. */
export const READ_BYTES_MAX = 1024 * 1024;

/** What most readings have at most; the budget then lets many of them through at once. */
const FEW_BYTES = 64 * 1024;
/** Beside each value: its type and marks. */
const HEADER_BYTES_MAX = 4 * 1024;

export interface Together {
  namespace: string;
  /** At most `READ_KEYS_MAX`. */
  keys: readonly string[];
  /** Monotonic. */
  deadline: number;
  /** As the server at hand knows them; otherwise behind a quorum (C37). */
  stale: boolean;
}

/**
 * @returns what each key has, in order, undefined where there is no such key; undefined in place of all if the values
 *   have more than `READ_BYTES_MAX` together
 * @throws PosternError `overloaded`, NoReplyError
 */
export async function readTogether(
  { control, layout }: Pick<Coordination, 'control' | 'layout'>,
  { namespace, keys, deadline, stale }: Together,
): Promise<(ConfigValue | undefined)[] | undefined> {
  const zk = control.until(deadline);
  const paths = keys.map((key) => layout.configKey(namespace, key));
  for (const bytes of [FEW_BYTES, READ_BYTES_MAX]) {
    const read = (): ReturnType<typeof readWithin> => readWithin(zk, paths, bytes);
    const values = await control.largeReads.spend(bytes, deadline, () => (stale ? read() : zk.fresh(read)));
    if (values !== undefined) return values;
  }
  return undefined;
}

/** @returns undefined if they have more bytes */
async function readWithin(
  zk: BoundClient,
  paths: readonly string[],
  maxBytes: number,
): Promise<(ConfigValue | undefined)[] | undefined> {
  const stats = await Promise.all(paths.map((path) => zk.exists(path)));
  const stored = sum(stats.map((stat) => stat?.dataLength));
  if (stored > maxBytes + paths.length * HEADER_BYTES_MAX) return undefined;
  const nodes = await readNodes(zk, paths, paths.length);
  const values = nodes.map((node) => (node === undefined ? undefined : decodeNode(node).value));
  return sum(values.map((value) => value?.bytes.length)) > maxBytes ? undefined : values;
}

function sum(numbers: readonly (number | undefined)[]): number {
  return numbers.reduce<number>((total, number = 0) => total + number, 0);
}
