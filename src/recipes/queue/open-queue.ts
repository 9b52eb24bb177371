/** A queue that this replica uses, put together from its parts. */
import type { QueueOp } from '../../metrics/metrics.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { ensembleNow } from '../../zookeeper/ensemble-time.js';
import type { Coordination } from '../coordination.js';
import { DepthLimit } from './admin/depth.js';
import { Dispatcher } from './claim/dispatcher.js';
import type { FoundQueue, QueueConfig } from './config.js';
import { QueuePaths } from './paths.js';
import { PushLane } from './push/lane.js';
import type { OtherQueues, Queue, QueueName } from './queue.js';

export class OpenQueue implements Queue {
  readonly context: Coordination;
  readonly queues: OtherQueues;
  readonly namespace: string;
  readonly name: string;
  readonly id: string;
  readonly paths: QueuePaths;
  readonly lane: PushLane;
  readonly depth: DepthLimit;
  readonly dispatcher: Dispatcher;
  usedAt = performance.now();
  #found: FoundQueue;

  constructor(context: Coordination, queues: OtherQueues, { namespace, name }: QueueName, found: FoundQueue) {
    const { id } = found.record;
    this.context = context;
    this.queues = queues;
    this.namespace = namespace;
    this.name = name;
    this.id = id;
    this.#found = found;
    this.paths = new QueuePaths(context.layout.queueData(namespace, id));
    this.lane = new PushLane(context.control, this.paths);
    this.depth = new DepthLimit(this);
    this.dispatcher = new Dispatcher(this);
  }

  get path(): string {
    return this.context.layout.queue(this.namespace, this.name);
  }

  get config(): QueueConfig {
    return this.#found.record.config;
  }

  get paused(): boolean {
    return this.#found.record.paused === true;
  }

  get unchanged(): MultiOperation {
    return { type: 'check', path: this.path, version: this.#found.version };
  }

  get control(): ControlSession {
    return this.context.control;
  }

  /** Whether anything of it is under way. */
  get busy(): boolean {
    return this.lane.busy || this.dispatcher.busy;
  }

  ensembleNow(deadline: number): Promise<number> {
    return ensembleNow(this.context, deadline);
  }

  count(op: QueueOp, messages = 1): void {
    if (messages > 0) this.context.metrics.queueMessagesTotal.inc({ op }, messages);
  }

  /** Takes over what its name says now. */
  learn(found: FoundQueue): void {
    const isNews = found.version !== this.#found.version;
    this.#found = found;
    if (isNews) this.dispatcher.changed();
  }

  /** Lets go of everything; whoever waits for messages is told to look the queue up again. */
  close(): void {
    this.dispatcher.close();
    this.lane.close();
  }
}
