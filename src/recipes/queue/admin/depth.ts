/**
 * The depth of a queue, without listing it: from the counts of children that every directory carries, a few hundred
 * directories in one read. A count of a million messages costs a handful of requests.
 */
import { PosternError } from '../../../errors.js';
import type { ZooKeeperClient } from '../../../zookeeper/client.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { byDeadline } from '../../../zookeeper/by-deadline.js';
import { retrying } from '../../../zookeeper/retrying.js';
import type { Admission, Queue } from '../queue.js';
import { prioritiesIn, segmentsIn, type QueuePaths } from '../paths.js';

/** A reading is used so long for admitting pushes; what was pushed here since is added. */
const ADMISSION_AGE_MS = 1_000;
/** A refusal is not told from a reading that is older. */
const REFUSAL_AGE_MS = 100;
/** For so long a reading that several pushes share waits for ZooKeeper. */
const READ_MS = 10_000;
/** The answer of one read stays below 64 KB. */
const READ_AT_ONCE = 400;

export interface Counted {
  /** In the queue, claimed ones among them. */
  depth: number;
  /** Not due yet. */
  delayed: number;
}

/** Counts after what the caller has seen: `sync` first where that matters. */
export async function countMessages(control: ZooKeeperClient, paths: QueuePaths, deadline: number): Promise<Counted> {
  const zk = control.until(deadline);
  const priorities = prioritiesIn(await zk.children(paths.data)).map((priority) => paths.priority(priority));
  const segments = await childrenOf(zk, priorities, (children) => segmentsIn(children).length > 0);
  const coarse = await childrenOf(zk, [paths.delayed]);
  const fine = await childrenOf(zk, coarse);
  const [depth, delayed] = await Promise.all([countChildren(zk, segments), countChildren(zk, fine)]);
  return { depth, delayed };
}

/** The children's paths of many directories. */
async function childrenOf(
  zk: BoundClient,
  directories: readonly string[],
  wanted: (children: string[]) => boolean = () => true,
): Promise<string[]> {
  const paths: string[] = [];
  for (let i = 0; i < directories.length; i += READ_AT_ONCE) {
    const batch = directories.slice(i, i + READ_AT_ONCE);
    const { results } = await zk.multiRead(batch.map((path) => ({ type: 'getChildren', path })));
    for (const [j, result] of results.entries())
      if ('children' in result && wanted(result.children))
        for (const child of result.children) paths.push(`${batch[j] as string}/${child}`);
  }
  return paths;
}

async function countChildren(zk: BoundClient, directories: readonly string[]): Promise<number> {
  let count = 0;
  for (let i = 0; i < directories.length; i += READ_AT_ONCE) {
    const batch = directories.slice(i, i + READ_AT_ONCE);
    const { results } = await zk.multiRead(batch.map((path) => ({ type: 'getData', path })));
    for (const result of results) if ('stat' in result) count += result.stat.numChildren;
  }
  return count;
}

/** Whether more may be pushed. Approximate: other replicas push meanwhile, and nothing serialises them. */
export class DepthLimit implements Admission {
  readonly #queue: Queue;
  #reading: Promise<number> | undefined;
  #readAt = -Infinity;
  #pushedSince = 0;

  constructor(queue: Queue) {
    this.#queue = queue;
  }

  pushed(count: number): void {
    this.#pushedSince += count;
  }

  async admit(count: number, deadline: number): Promise<void> {
    const { maxDepth } = this.#queue.config;
    if (maxDepth === undefined) return;
    const depth = await this.#depth(ADMISSION_AGE_MS, deadline);
    if (depth + count <= maxDepth) return;
    const sure = await this.#depth(REFUSAL_AGE_MS, deadline);
    if (sure + count > maxDepth) throw queueFull(this.#queue.name, { count, depth: sure, maxDepth });
  }

  async #depth(maxAgeMs: number, deadline: number): Promise<number> {
    // Who has more time than others share it with reads on, and who has less does not wait for them.
    const reading = (): Promise<number> => byDeadline(this.#shared(maxAgeMs), deadline, 'the count of the messages');
    return (await retrying(deadline, reading)) + this.#pushedSince;
  }

  #shared(maxAgeMs: number): Promise<number> {
    const now = performance.now();
    if (this.#reading !== undefined && now - this.#readAt <= maxAgeMs) return this.#reading;
    const { control, paths } = this.#queue;
    const reading = countMessages(control, paths, now + READ_MS).then(({ depth, delayed }) => depth + delayed);
    this.#readAt = now;
    this.#pushedSince = 0;
    this.#reading = reading;
    reading.catch(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    return reading;
  }
}

function queueFull(
  name: string,
  { count, depth, maxDepth }: { count: number; depth: number; maxDepth: number },
): PosternError {
  const members = { depth, maxDepth };
  if (count > maxDepth)
    return new PosternError(
      'queue-full',
      `Queue "${name}" never takes ${count} messages at once: its maxDepth is ${maxDepth}. Nothing was pushed.`,
      { members, retryable: false },
    );
  return new PosternError(
    'queue-full',
    `Queue "${name}" has about ${depth} messages; its maxDepth is ${maxDepth}. Nothing was pushed.`,
    { members },
  );
}
