/**
 * Writes one or several keys, all or none: read, decide (`plan.ts`), one transaction; repeated if somebody else wrote
 * in between, or if its answer was lost. `entry.ts` walks through it.
 *
 * Within a replica the writes of one key take turns, so only writes of other replicas cause a retry, and then one of
 * those has made progress.
 */
import { isPosternError, PosternError } from '../../errors.js';
import type { ConfigWriteOutcome } from '../../metrics/metrics.js';
import type { Requester } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason, isTransient, mayBeApplied } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { checkOfGuard, type Guard } from '../line/guard.js';
import { findMark, MARKS_MAX, type Attempt } from '../marks.js';
import { Turns } from '../waiting/turns.js';
import { decodeNode, VALUE_BYTES_MAX, type ConfigNode } from './entry.js';
import { planWrite, recallWrite, type ConfigOperation, type ConfigReading, type Written } from './plan.js';

export interface ConfigWrite {
  namespace: string;
  /** Of different keys. */
  operations: readonly ConfigOperation[];
  guard: Guard | undefined;
  attempt: Attempt;
  /** Monotonic. */
  deadline: number;
  requester: Requester;
}

/** A packet above 1 048 575 bytes makes ZooKeeper hang up (jute.maxbuffer); this leaves room for its frame. */
export const TRANSACTION_BYTES_MAX = 1_030_000;
/** Of one operation, beside its path and data: its header, the access list, the chroot. */
const OPERATION_BYTES = 256;

const REFUSALS = ['version-mismatch', 'not-found', 'fencing-token-stale'] as const;
/** Failures caused by another write, or by housekeeping: decide again. */
const OVERTAKEN = ['BAD_VERSION', 'NODE_EXISTS', 'NO_NODE', 'NOT_EMPTY'] as const;

export class ConfigWriter {
  readonly #context: Coordination;
  readonly #turns = new Turns();

  constructor(context: Coordination) {
    this.#context = context;
  }

  /** Keys that are being written. */
  get size(): number {
    return this.#turns.size;
  }

  /**
   * @returns the result of each operation, in order
   * @throws PosternError `version-mismatch`, `fencing-token-stale`, `not-found`, `too-large`, `conflict` when others
   *   wrote all the time, NoReplyError
   */
  async write(write: ConfigWrite): Promise<Written[]> {
    const { layout, metrics } = this.#context;
    const count = (outcome: ConfigWriteOutcome): void => metrics.configWritesTotal.inc({ outcome });
    checkValues(write.operations);
    const paths = new Map(write.operations.map(({ key }) => [key, layout.configKey(write.namespace, key)]));
    try {
      const { written, repeated } = await this.#turns.take([...paths.values()], write.deadline, () =>
        this.#untilDone(write, paths),
      );
      count(repeated ? 'repeated' : 'written');
      return written;
    } catch (error) {
      count(isPosternError(error) && error.outcome === 'unknown' ? 'unknown' : 'refused');
      throw error;
    }
  }

  async #untilDone(
    write: ConfigWrite,
    paths: ReadonlyMap<string, string>,
  ): Promise<{ written: Written[]; repeated: boolean }> {
    const { namespace, operations, guard, attempt, deadline, requester } = write;
    const zk = this.#context.control.until(deadline);
    const writing = this.#context.control.writingFor(requester);
    /** Our last transaction without a reply, and what was read before it. */
    let lost = undefined as { error: Error; reading: ConfigReading } | undefined;
    const once = async (): Promise<{ written: Written[]; repeated: boolean }> => {
      const reading = await this.#read(namespace, paths, zk);
      const recalled = recallWrite(operations, reading, ({ marks }) => findMark(marks, attempt));
      if (recalled !== undefined) return { written: recalled, repeated: lost === undefined };
      // So many writes have followed that this one may have been among them and lost its mark: nobody knows.
      if (lost !== undefined && mayBeForgotten(operations, lost.reading, reading)) throw forgotten(lost.error);
      const checks = guard === undefined ? [] : [await checkOfGuard(this.#context, namespace, guard, deadline)];
      const plan = planWrite(operations, reading, attempt);
      checkSize(plan.transaction);
      if (lost === undefined) await admitKeys(this.#context, namespace, plan.transaction, deadline);
      const results = await writing.multi([...checks, ...plan.transaction], deadline).catch((error: unknown) => {
        if (mayBeApplied(error)) lost = { error: error as Error, reading };
        throw error;
      });
      return { written: plan.written(results.slice(checks.length)), repeated: false };
    };
    let proven = false;
    const attempts = (): ReturnType<typeof once> =>
      once().catch(async (error: unknown) => {
        if (proven || !isRefusal(error)) throw error;
        // Perhaps refused from old state, by a leader that was replaced: ask a quorum, then decide again.
        proven = await zk.fresh(() => Promise.resolve(true));
        return once();
      });
    try {
      return await retrying(deadline, attempts, isOvertaken);
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      throw lost?.error ?? (isTransient(error) ? error : busy(operations));
    }
  }

  /** The keys as they are now, and of those that are missing which directories above them are missing too. */
  async #read(namespace: string, paths: ReadonlyMap<string, string>, zk: BoundClient): Promise<ConfigReading> {
    const { layout } = this.#context;
    const [, ...read] = await Promise.all([
      zk.sync(layout.config(namespace)),
      ...[...paths.values()].map((path) => zk.find(path)),
    ]);
    const nodes = new Map<string, ConfigNode | undefined>();
    const above = new Set<string>();
    for (const [i, [key, path]] of [...paths].entries()) {
      const node = read[i];
      nodes.set(key, node === undefined ? undefined : decodeNode(node));
      if (node !== undefined) continue;
      for (let parent = parentOf(path); parent.length >= layout.namespace(namespace).length; parent = parentOf(parent))
        above.add(parent);
    }
    const directories = [...above];
    const found = await Promise.all(directories.map((path) => zk.exists(path)));
    return { paths, nodes, missing: new Set(directories.filter((_, i) => found[i] === undefined)) };
  }
}

/** Worth another attempt: decide again, or ask again. */
function isOvertaken(error: unknown): boolean {
  return isReason(error, ...OVERTAKEN) || isTransient(error);
}

/** Decided by what was read. */
function isRefusal(error: unknown): boolean {
  return REFUSALS.some((code) => isPosternError(error, code));
}

/** Keys and directories that are made count in the directory that they are made in. */
async function admitKeys(
  { names, layout }: Coordination,
  namespace: string,
  transaction: readonly MultiOperation[],
  deadline: number,
): Promise<void> {
  const inside = `${layout.config(namespace)}/`;
  const removed = new Set(transaction.flatMap((operation) => (operation.type === 'delete' ? [operation.path] : [])));
  for (const { type, path } of transaction) {
    if (type === 'create') await names.admitNamespace(path, deadline);
    if (type === 'create' && path.startsWith(inside) && !removed.has(path)) await names.admit(parentOf(path), deadline);
  }
}

function checkValues(operations: readonly ConfigOperation[]): void {
  for (const [index, operation] of operations.entries()) {
    if (operation.type !== 'put' || operation.bytes.length <= VALUE_BYTES_MAX) continue;
    throw new PosternError(
      'too-large',
      `The value of "${operation.key}" has ${operation.bytes.length} bytes; at most ${VALUE_BYTES_MAX} are kept.`,
      { members: { maxBytes: VALUE_BYTES_MAX, key: operation.key, ...(operations.length > 1 && { index }) } },
    );
  }
}

/** One packet, which the server would not read. */
function checkSize(transaction: readonly MultiOperation[]): void {
  let bytes = 0;
  for (const operation of transaction) {
    const data = operation.type === 'create' || operation.type === 'setData' ? (operation.data?.length ?? 0) : 0;
    bytes += operation.path.length + data + OPERATION_BYTES;
  }
  if (bytes <= TRANSACTION_BYTES_MAX) return;
  throw new PosternError(
    'too-large',
    `These operations make a transaction of ${bytes} bytes; at most ${TRANSACTION_BYTES_MAX} are written at once.`,
    { members: { maxBytes: TRANSACTION_BYTES_MAX } },
  );
}

/** Whether each node that would tell may have lost our mark since. */
function mayBeForgotten(operations: readonly ConfigOperation[], before: ConfigReading, now: ConfigReading): boolean {
  return operations.every(({ type, key }) => {
    if (type === 'check') return true;
    const old = before.nodes.get(key);
    const node = now.nodes.get(key);
    // Not there before and not now: nothing was made, for what is deleted leaves a tombstone longer than any request
    // lasts.
    if (node === undefined) return old !== undefined;
    if (old === undefined) return node.version >= MARKS_MAX;
    return node.czxid !== old.czxid || node.version > old.version + MARKS_MAX;
  });
}

function forgotten(cause: unknown): PosternError {
  return new PosternError(
    'outcome-unknown',
    'ZooKeeper did not answer this write, and so many have come after it that it cannot be told whether it was done.',
    { cause },
  );
}

function busy(operations: readonly ConfigOperation[]): PosternError {
  const keys = operations.map(({ key }) => `"${key}"`).slice(0, 3);
  return new PosternError('conflict', `Others wrote to ${keys.join(', ')} all the time; repeat the request.`);
}
