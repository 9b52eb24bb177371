/**
 * Watching a queue, for event streams (`observers.ts`): how much is in it. What is shown changes with every message, so a change is
 * told at most about twice a second, however many there are; and the claims, which change without any change of a directory, are looked at
 * every few seconds while somebody looks.
 */
import { createHash } from 'node:crypto';
import { pause } from '../../time.js';
import type { Coordination } from '../coordination.js';
import { Observers, type Look, type LookResult } from '../observers.js';
import { prioritiesIn, QueuePaths, segmentsIn } from './queue-paths.js';
import type { Queues } from './queues.js';
import { describeQueue, type QueueView } from './view.js';

export interface QueueState {
  /** Undefined: there is no such queue (any more). */
  view: QueueView | undefined;
  etag: string;
}

const BETWEEN_MS = 500;
const LOOK_EVERY_MS = 5_000;

interface Subject {
  namespace: string;
  name: string;
}

export class QueueObservers {
  readonly #context: Coordination;
  readonly #queues: Queues;
  readonly #observers: Observers<Subject, QueueState>;

  constructor(context: Coordination, queues: Queues) {
    this.#context = context;
    this.#queues = queues;
    this.#observers = new Observers(context.control, (path, subject, look) => this.#look(path, subject, look));
  }

  get size(): number {
    return this.#observers.size;
  }

  subscribe(namespace: string, name: string, subscriber: (state: QueueState) => void): () => void {
    return this.#observers.subscribe(this.#context.layout.queue(namespace, name), { namespace, name }, subscriber);
  }

  async #look(path: string, { namespace, name }: Subject, look: Look<QueueState>): Promise<LookResult> {
    if (look.known !== undefined) await pause(BETWEEN_MS, look.signal);
    const { control, layout } = this.#context;
    const { watches } = control;
    const node = await watches.exists(path, look.wake, look.deadline);
    look.keep(node.watch);
    const found = await this.#queues.read(namespace, name, look.deadline);
    if (found !== undefined) {
      const paths = new QueuePaths(layout.queueData(namespace, found.record.id));
      const listen = async (directory: string): Promise<string[]> => {
        const { value, watch } = await watches.getChildren(directory, look.wake, look.deadline);
        look.keep(watch);
        return value?.children ?? [];
      };
      await listen(paths.delayed);
      for (const priority of prioritiesIn(await listen(paths.data))) {
        const segments = segmentsIn(await listen(paths.priority(priority)));
        // Messages come at the end and go at the beginning.
        for (const segment of new Set([segments.at(0), segments.at(-1)]))
          if (segment !== undefined) await listen(paths.segment(priority, segment));
      }
    }
    const view = await describeQueue(this.#context, this.#queues, namespace, name, look.deadline);
    const etag = createHash('sha256')
      .update(JSON.stringify(view ?? null))
      .digest('base64url')
      .slice(0, 22);
    look.publish({ view, etag });
    const timer = setTimeout(look.wake, LOOK_EVERY_MS);
    look.keep({ cancel: () => clearTimeout(timer) });
    return 'wait';
  }
}
