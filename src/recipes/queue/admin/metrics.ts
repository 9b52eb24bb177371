/**
 * How many messages are in the queues that this replica uses, and which are paused, for the metrics: counted from time
 * to time, never during a scrape. Queue names become labels up to a limit (`shareOut`); the others are summed as
 * `other`.
 */
import { MINUTE, SECOND } from '../../../time.js';
import { isTransient } from '../../../zookeeper/errors.js';
import type { Coordination } from '../../coordination.js';
import { unlessNewer } from '../../known-record.js';
import type { Queues } from '../queues.js';
import { shareOut } from './labels.js';
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
  /** Those told of in the last turn. */
  #labels: readonly string[] = [];
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
    const { queueDepth, queueOldestMessageTimestampSeconds, queuePaused } = this.#context.metrics;
    const found = new Map<string, { depth: number; at: number; paused: boolean }>();
    for (const { namespace, name } of this.#queues.usedWithin(LATELY_MS)) {
      const deadline = performance.now() + REQUEST_MS;
      const view = await describeQueue(this.#context, this.#queues, namespace, name, deadline).catch(unlessNewer);
      if (view === undefined) continue;
      const key = namespace === 'default' ? name : `${namespace}/${name}`;
      found.set(key, { depth: view.depth, at: (view.oldestEnqueuedAt ?? 0) / 1_000, paused: view.paused });
    }
    this.#labels = shareOut([...found.keys()], this.#labels, this.#labelsMax);
    const own = new Set(this.#labels);
    // What nobody here uses any more is not told of: it would be a number of long ago.
    queueDepth.reset();
    queueOldestMessageTimestampSeconds.reset();
    queuePaused.reset();
    let oldestOfOthers = 0;
    for (const [key, { depth, at, paused }] of found) {
      const queue = own.has(key) ? key : OTHER;
      queueDepth.inc({ queue }, depth);
      if (paused) queuePaused.inc({ queue });
      if (queue !== OTHER) queueOldestMessageTimestampSeconds.set({ queue }, at);
      else if (at > 0 && (oldestOfOthers === 0 || at < oldestOfOthers)) oldestOfOthers = at;
    }
    if (own.size < found.size || own.has(OTHER))
      queueOldestMessageTimestampSeconds.set({ queue: OTHER }, oldestOfOthers);
  }
}
