/**
 * How much is in a queue, without listing it: the counts of children that every directory carries, a few hundred directories
 * in one read. A count of a million messages costs a handful of requests.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { unless } from '../../zookeeper/errors.js';
import { queueFull } from './push.js';
import type { Queue } from './queue.js';
import { prioritiesIn, segmentsIn, type QueuePaths } from './queue-paths.js';

/** A reading is used so long for admitting pushes; what was pushed here since is added. */
const ADMISSION_AGE_MS = 1_000;
/** A refusal is not told from a reading that is older. */
const REFUSAL_AGE_MS = 100;
/** The answer of one read stays below 64 KB. */
const READ_AT_ONCE = 400;

export interface Counted {
  /** In the queue, claimed ones among them. */
  depth: number;
  /** Not due yet. */
  delayed: number;
}

/** Counts after what the caller has seen: `sync` first where that matters. */
export async function countMessages(control: ControlSession, paths: QueuePaths, deadline: number): Promise<Counted> {
  const root = (await unless(control.getChildren(paths.data, deadline), 'NO_NODE'))?.children ?? [];
  const priorities = prioritiesIn(root).map((priority) => paths.priority(priority));
  const segments = await childrenOf(control, priorities, deadline, (children) => segmentsIn(children).length > 0);
  const coarse = await childrenOf(control, [paths.delayed], deadline);
  const fine = await childrenOf(control, coarse, deadline);
  const [depth, delayed] = await Promise.all([
    countChildren(control, segments, deadline),
    countChildren(control, fine, deadline),
  ]);
  return { depth, delayed };
}

/** The children's paths of many directories. */
async function childrenOf(
  control: ControlSession,
  directories: readonly string[],
  deadline: number,
  wanted: (children: string[]) => boolean = () => true,
): Promise<string[]> {
  const paths: string[] = [];
  for (let i = 0; i < directories.length; i += READ_AT_ONCE) {
    const batch = directories.slice(i, i + READ_AT_ONCE);
    const { results } = await control.multiRead(
      batch.map((path) => ({ type: 'getChildren', path })),
      deadline,
    );
    for (const [j, result] of results.entries())
      if ('children' in result && wanted(result.children))
        for (const child of result.children) paths.push(`${batch[j] as string}/${child}`);
  }
  return paths;
}

async function countChildren(
  control: ControlSession,
  directories: readonly string[],
  deadline: number,
): Promise<number> {
  let count = 0;
  for (let i = 0; i < directories.length; i += READ_AT_ONCE) {
    const batch = directories.slice(i, i + READ_AT_ONCE);
    const { results } = await control.multiRead(
      batch.map((path) => ({ type: 'getData', path })),
      deadline,
    );
    for (const result of results) if ('stat' in result) count += result.stat.numChildren;
  }
  return count;
}

/** Whether more may be pushed. Approximate: other replicas push meanwhile, and nothing serialises them. */
export class DepthLimit {
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

  /** @throws PosternError `queue-full` */
  async admit(count: number, deadline: number): Promise<void> {
    const { maxDepth } = this.#queue.config;
    if (maxDepth === undefined) return;
    const depth = await this.#depth(ADMISSION_AGE_MS, deadline);
    if (depth + count <= maxDepth) return;
    const sure = await this.#depth(REFUSAL_AGE_MS, deadline);
    if (sure + count > maxDepth) throw queueFull(this.#queue.name, sure, maxDepth);
  }

  async #depth(maxAgeMs: number, deadline: number): Promise<number> {
    if (this.#reading === undefined || performance.now() - this.#readAt > maxAgeMs) {
      const { control, paths } = this.#queue;
      this.#readAt = performance.now();
      this.#pushedSince = 0;
      this.#reading = countMessages(control, paths, deadline).then(({ depth, delayed }) => depth + delayed);
      this.#reading.catch(() => (this.#reading = undefined));
    }
    return (await this.#reading) + this.#pushedSince;
  }
}
