/**
 * One queue, as far as this replica uses it now: what its name stands for, the lane of its pushes, the dispatcher of its consumers.
 * Nothing here is the truth; all of it can be thrown away at any moment, and is after a while without use.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { ensembleNow } from '../break-hold.js';
import type { Coordination } from '../coordination.js';
import { Dispatcher } from './dispatcher.js';
import { DepthLimit } from './depth.js';
import { PushLane } from './push-lane.js';
import type { QueueConfig, QueueRecord } from './queue-config.js';
import { QueuePaths } from './queue-paths.js';
import type { QueueOp } from '../../metrics/metrics.js';
import type { Queues } from './queues.js';

export class Queue {
  readonly context: Coordination;
  readonly queues: Queues;
  readonly namespace: string;
  readonly name: string;
  /** Of its contents: a queue that is deleted and made anew has another. */
  readonly id: string;
  readonly paths: QueuePaths;
  readonly lane: PushLane;
  readonly depth: DepthLimit;
  readonly dispatcher: Dispatcher;
  config: QueueConfig;
  usedAt = performance.now();

  constructor(context: Coordination, queues: Queues, namespace: string, name: string, record: QueueRecord) {
    this.context = context;
    this.queues = queues;
    this.namespace = namespace;
    this.name = name;
    this.id = record.id;
    this.config = record.config;
    this.paths = new QueuePaths(context.layout.queueData(namespace, record.id));
    this.lane = new PushLane(context.control, this.paths);
    this.depth = new DepthLimit(this);
    this.dispatcher = new Dispatcher(this);
  }

  /** Of its name. */
  get path(): string {
    return this.context.layout.queue(this.namespace, this.name);
  }

  get control(): ControlSession {
    return this.context.control;
  }

  /** Whether anything of it is under way. */
  get busy(): boolean {
    return this.lane.busy || this.dispatcher.busy;
  }

  /** Epoch ms on the ensemble's clock. */
  ensembleNow(deadline: number): Promise<number> {
    return ensembleNow(this.context, deadline);
  }

  count(op: QueueOp, messages = 1): void {
    if (messages > 0) this.context.metrics.queueMessagesTotal.inc({ op }, messages);
  }

  /** Lets go of everything; whoever waits for messages is told to look the queue up again. */
  close(): void {
    this.dispatcher.close();
    this.lane.close();
  }
}
