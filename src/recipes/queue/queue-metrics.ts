/**
 * How much is in the queues that this replica uses, for the metrics: counted now and then, never at a scrape. The names of queues become
 * labels up to a bounded number, first come first served; the others are added up as `other`.
 */
import { MINUTE, SECOND } from '../../time.js';
import { isTransient } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Queues } from './queues.js';
import { describeQueue } from './view.js';

const EVERY_MS = 5 * SECOND;
const REQUEST_MS = 10 * SECOND;
/** What was not used here for so long is not told of. */
const LATELY_MS = 5 * MINUTE;
const OTHER = 'other';

export class QueueMetrics {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #labelsMax: number;
  readonly #onFault: (error: unknown) => void;
  /** By namespace and name: the label, and the turn in which the queue was in use last. */
  readonly #labels = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;
  #counting = false;

  constructor(context: Coordination, queues: Queues, labelsMax: number, onFault: (error: unknown) => void) {
    this.#onFault = onFault;
    this.#context = context;
    this.#queues = queues;
    this.#labelsMax = labelsMax;
  }

  start(): void {
    this.#timer = setInterval(() => void this.#count(), EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  async #count(): Promise<void> {
    if (this.#counting) return;
    this.#counting = true;
    try {
      await this.count();
    } catch (error) {
      if (!isTransient(error)) this.#onFault(error); // counted next time
    } finally {
      this.#counting = false;
    }
  }

  /** Counts once. */
  async count(): Promise<void> {
    const { queueDepth, queueOldestMessageTimestampSeconds } = this.#context.metrics;
    const depths = new Map<string, number>();
    const oldest = new Map<string, number>();
    for (const { namespace, name } of this.#queues.usedWithin(LATELY_MS)) {
      const view = await describeQueue(this.#context, this.#queues, namespace, name, performance.now() + REQUEST_MS);
      if (view === undefined) continue;
      const label = this.#labelOf(namespace, name);
      depths.set(label, (depths.get(label) ?? 0) + view.depth);
      const at = (view.oldestEnqueuedAt ?? 0) / 1_000;
      const before = oldest.get(label) ?? 0;
      oldest.set(label, before === 0 || (at > 0 && at < before) ? at : before);
    }
    // What nobody here uses any more is not told of: it would be a number of long ago.
    queueDepth.reset();
    queueOldestMessageTimestampSeconds.reset();
    for (const [queue, depth] of depths) queueDepth.set({ queue }, depth);
    for (const [queue, at] of oldest) queueOldestMessageTimestampSeconds.set({ queue }, at);
  }

  #labelOf(namespace: string, name: string): string {
    const key = namespace === 'default' ? name : `${namespace}/${name}`;
    const known = this.#labels.get(key);
    if (known !== undefined) return known;
    const label = this.#labels.size < this.#labelsMax ? key : OTHER;
    if (label !== OTHER) this.#labels.set(key, label);
    return label;
  }
}
