/**
 * One queue, as its parts know it: its contents, the lane of its pushes, the dispatcher of its consumers. Nothing here
 * is the truth; all of it can be dropped at any moment, and is dropped after a while without use.
 *
 * Reading order: `paths.ts`, `config.ts` and `message.ts` (what is in ZooKeeper); `queues.ts` (what a name stands for)
 * and `open-queue.ts`; then a message's way: `push/push.ts` and `push/lane.ts`; `claim/consume.ts`,
 * `claim/dispatcher.ts` and `claim/hand-out.ts`; `ack/acknowledge.ts` or `ack/give-back.ts`. `admin/` looks at queues,
 * changes them, and tidies up.
 */
import type { Requester } from '../../time.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import type { Coordination } from '../coordination.js';
import type { Delivered, Demand, DemandOptions } from './claim/demand.js';
import type { MessageReads } from './claim/message-reads.js';
import type { PushLane } from './push/lane.js';
import type { QueueConfig } from './config.js';
import type { QueuePaths } from './paths.js';
import type { QueueOp } from '../../metrics/metrics.js';

export interface Queue {
  readonly context: Coordination;
  readonly queues: OtherQueues;
  readonly namespace: string;
  readonly name: string;
  /** Of its contents: a queue that is deleted and made anew has another. */
  readonly id: string;
  /** Of its name. */
  readonly path: string;
  readonly paths: QueuePaths;
  readonly config: QueueConfig;
  /** Whether nothing is handed out, as far as is known here. */
  readonly paused: boolean;
  /** Refuses what comes with it once the queue was paused, resumed or configured since this replica has read that. */
  readonly unchanged: MultiOperation;
  readonly control: ControlSession;
  readonly lane: PushLane;
  readonly depth: Admission;
  readonly dispatcher: Dispatching;
  /** Epoch ms on the ensemble's clock. */
  ensembleNow(deadline: number): Promise<number>;
  count(op: QueueOp, messages?: number): void;
}

/** Whether more may be pushed (`admin/depth.ts`). */
export interface Admission {
  pushed(count: number): void;
  /** @throws PosternError `queue-full` */
  admit(count: number, deadline: number): Promise<void>;
}

/** Hands messages to those who ask (`claim/dispatcher.ts`). */
export interface Dispatching {
  /**
   * Takes messages; none when the wait is over before there were any.
   * @throws LeaseExpiredError, QueueGoneError (nothing was taken), NoReplyError
   */
  take(options: DemandOptions): Promise<Delivered[]>;
  /** As `take`, for a request that waits at other queues too. */
  serve(demand: Demand): void;
  /** This replica has settled a claim: no need to find out. */
  settled(path: string, how: 'gone' | 'free'): void;
  /** The queue was configured, paused or resumed. */
  changed(): void;
}

/** A queue, as callers name it. */
export interface QueueName {
  namespace: string;
  name: string;
}

/** What names of queues stand for (`queues.ts`). */
export interface OtherQueues {
  /** Reads messages of any of them. */
  readonly messages: MessageReads;
  /** Whether its name still stands for it, as far as the events tell that came so far. */
  isCurrent(queue: Queue, deadline: number): Promise<boolean>;
  openOrCreate(namespace: string, name: string, deadline: number, requester?: Requester): Promise<Queue>;
  /** Whoever found that the contents are gone looks the name up anew. */
  reopen(queue: Queue, deadline: number): Promise<void>;
}
