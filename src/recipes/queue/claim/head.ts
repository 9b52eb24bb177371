/** The next messages of a queue, over all its priorities: those with a low number first. */
import { unless } from '../../../zookeeper/errors.js';
import type { Watch } from '../../../zookeeper/watch.js';
import { ClaimWatch } from './watch.js';
import type { Entry } from './entry.js';
import { PriorityHead } from './priority-head.js';
import type { Queue } from '../queue.js';
import { QueueGoneError } from '../gone.js';
import { prioritiesIn } from '../paths.js';
import { roomBehind, type Room } from './room.js';

export class Head {
  readonly #queue: Queue;
  readonly #onChange: () => void;
  readonly #claims: ClaimWatch;
  #priorities: PriorityHead[] = [];
  /** Tells of priorities that are used for the first time. */
  #rootWatch: Watch | undefined;
  #handedBack = 0;

  /** @param onChange called when there may be something to take after `next` had found nothing */
  constructor(queue: Queue, onChange: () => void) {
    this.#queue = queue;
    this.#onChange = onChange;
    this.#claims = new ClaimWatch({
      control: queue.control,
      now: () => queue.context.zooKeeperClock.earliest(),
      onEnded: (entry) => this.#free(entry),
      onExpired: () => queue.count('expire'),
    });
  }

  /** Nothing can be taken, as far as is known, and whatever changes that is watched. */
  get quiet(): boolean {
    return this.#rootWatch !== undefined && this.#priorities.every(({ quiet }) => quiet);
  }

  /**
   * How often a message came back that was assigned and not taken. What `next` had found before may be behind it, and
   * goes out no more.
   */
  get handedBack(): number {
    return this.#handedBack;
  }

  /**
   * The next messages, in order and read, as many as there is room for.
   * @throws QueueGoneError
   */
  async next(room: Room, deadline: number): Promise<Entry[]> {
    for (;;) {
      if (this.#rootWatch === undefined) await this.#listPriorities(deadline);
      const found: Entry[] = [];
      const priorities = this.#priorities.filter(({ quiet }) => !quiet);
      for (const [i, priority] of priorities.entries()) {
        const left = roomBehind(room, found);
        if (left === undefined) break;
        found.push(...(await priority.next(left, { isLast: i === priorities.length - 1 }, deadline)));
      }
      if (found.length > 0 || this.quiet) return found;
    }
  }

  /** Others may have taken meanwhile. */
  forget(): void {
    for (const priority of this.#priorities) priority.forget();
  }

  claimed(entry: Entry): void {
    entry.state = 'claimed';
    entry.claimedAt = performance.now();
    entry.message = undefined;
    // Listed anew meanwhile, it is another entry there, and that is the one to be returned when the claim ends.
    if (this.#of(entry)?.has(entry) === true) this.#claims.add(entry);
  }

  gone(entry: Entry): void {
    entry.state = 'gone';
    entry.message = undefined;
    this.#of(entry)?.gone(entry);
  }

  /** It was not taken, or that is not known: it may be taken again, after it was read anew. */
  returned(entry: Entry): void {
    this.#handedBack += 1;
    this.#free(entry);
  }

  /** It was not taken, and nothing has become of it. */
  putBack(entry: Entry): void {
    this.#of(entry)?.putBack(entry);
  }

  /** What this replica did with a claimed message. */
  settled(path: string, how: 'gone' | 'free'): void {
    const entry = this.#claims.settled(path, how);
    if (entry?.state === 'gone' && this.#of(entry)?.gone(entry) === true) this.#onChange();
  }

  /** Finds out now what has become of claims that are too young to be watched, or whose time is over. */
  lookAtClaims(deadline: number): Promise<void> {
    return this.#claims.lookAtAll(deadline);
  }

  /** Lets go of all that is watched. While something is under way that is not all: then once more behind it. */
  close(): void {
    this.#claims.close();
    for (const priority of this.#priorities) priority.close();
    this.#rootWatch?.cancel();
    this.#rootWatch = undefined;
  }

  #free(entry: Entry): void {
    this.#of(entry)?.returned(entry);
    this.#onChange();
  }

  #of(entry: Entry): PriorityHead | undefined {
    return this.#priorities.find(({ priority }) => priority === entry.priority);
  }

  async #listPriorities(deadline: number): Promise<void> {
    const { control, paths } = this.#queue;
    let fired = false;
    const listing = await control.watches.getChildren(
      paths.data,
      () => {
        fired = true;
        this.#rootWatch = undefined;
        this.#onChange();
      },
      deadline,
    );
    if (listing.value === undefined) throw new QueueGoneError();
    if (fired) listing.watch?.cancel();
    else this.#rootWatch = listing.watch;
    this.#priorities = prioritiesIn(listing.value.children).map(
      (priority) =>
        this.#priorities.find((known) => known.priority === priority) ??
        new PriorityHead(
          this.#queue,
          priority,
          () => this.#onChange(),
          (entry) => this.#claims.add(entry),
        ),
    );
    const data = await unless(control.exists(paths.data, deadline), 'NO_NODE');
    if (data === undefined || data.version > 0) throw new QueueGoneError();
  }
}
