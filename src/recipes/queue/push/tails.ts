/**
 * The tail of each priority: the segment that is not sealed, where its next message goes.
 *
 * A push is a transaction that checks that its segment is at version 0, exactly, and creates the message in it
 * (protocol C24). A pusher that sees a full segment seals it and creates the next one in one transaction, so one is
 * always open, and everything in a segment was pushed before anything in the next: strict order across segments. If the
 * pusher that fills a segment dies before it seals it, the next one that gets a number above the bound does.
 *
 * Segment numbers are never reused: the last segment is never removed before it is sealed, and the next number is one
 * more. That needs no separate counter.
 */
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { MultiOperation } from '../../../zookeeper/operations.js';
import { segmentsIn, SEGMENT_MESSAGES, type QueuePaths } from '../paths.js';

const FIRST_SEGMENT = 1;

/** What makes a priority: its directory and the first segment. */
export function createPriority(paths: QueuePaths, priority: number): MultiOperation[] {
  return [
    { type: 'create', path: paths.priority(priority) },
    { type: 'create', path: paths.segment(priority, FIRST_SEGMENT) },
  ];
}

export class Tails {
  readonly #control: ControlSession;
  readonly #paths: QueuePaths;
  /** By priority: the segment that was open when it was last used. */
  readonly #open = new Map<number, number>();

  constructor(control: ControlSession, paths: QueuePaths) {
    this.#control = control;
    this.#paths = paths;
  }

  /** @returns undefined when the queue is not there any more */
  async of(priority: number, deadline: number): Promise<number | undefined> {
    const known = this.#open.get(priority);
    if (known !== undefined) return known;
    for (;;) {
      const listing = await unless(this.#control.getChildren(this.#paths.priority(priority), deadline), 'NO_NODE');
      const last = segmentsIn(listing?.children ?? []).at(-1);
      if (last !== undefined) {
        this.#open.set(priority, last);
        return last;
      }
      if (!(await this.#create(priority, deadline))) return undefined;
    }
  }

  /** Somebody has sealed it, or the queue is gone: looked up again when it is needed. */
  forget(priority: number): void {
    this.#open.delete(priority);
  }

  /**
   * Called with the sequence numbers of what was pushed: seals a segment that is full. Failing to is nothing: the next
   * pusher tries.
   */
  async pushed(priority: number, segment: number, sequence: number, deadline: number): Promise<void> {
    if (sequence < SEGMENT_MESSAGES - 1 || this.#open.get(priority) !== segment) return;
    this.#open.delete(priority);
    await unless(
      this.#control.multi(
        [
          { type: 'setData', path: this.#paths.segment(priority, segment), data: Buffer.alloc(0), version: 0 },
          { type: 'create', path: this.#paths.segment(priority, segment + 1) },
        ],
        deadline,
      ),
      'BAD_VERSION',
      'NO_NODE',
      'NODE_EXISTS',
    );
  }

  /** @returns false when the queue is not there any more, or was deleted */
  async #create(priority: number, deadline: number): Promise<boolean> {
    try {
      await this.#control.multi(
        [
          { type: 'check', path: this.#paths.data, version: 0 },
          { type: 'setData', path: this.#paths.pushers, data: Buffer.alloc(0) },
          ...createPriority(this.#paths, priority),
        ],
        deadline,
      );
      return true;
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) {
        // Somebody was faster, and this server has not heard of it.
        await this.#control.sync(this.#paths.data, deadline);
        return true;
      }
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
      throw error;
    }
  }
}
