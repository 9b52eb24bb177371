/**
 * The next messages of one priority: what the taking replica has listed, how far it has come, and what it watches while
 * there is nothing to take.
 *
 *   to be listed ──▶ taking: the listing is used up message by message, without any request but the reads ahead
 *        ▲               │ used up: the next segment is listed; after the last one, it and the directory are watched
 *        │               ▼
 *        └──event──── quiet: nothing can be taken, and whatever changes that is watched
 *
 * So the cost of taking does not depend on the depth of the queue: a listing of a thousand names serves a thousand
 * messages, and is repeated only when it is used up. Claimed messages are skipped and left to `watch.ts`.
 *
 * A segment is complete once it was listed after it was seen to be sealed (a later one exists): nothing behind it is
 * taken before that, or its last messages would be overtaken. A complete segment without messages is left behind
 * (protocol C23) and removed.
 *
 * Of a grouped queue the first message of each group is taken (`group-turns.ts`): more segments are listed then, up to
 * `WINDOW_SEGMENTS`.
 */
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { Watch } from '../../../zookeeper/watch.js';
import type { Entry } from './entry.js';
import { QueueGoneError } from '../gone.js';
import type { Queue } from '../queue.js';
import { messagesIn, segmentsIn, type QueuePaths } from '../paths.js';
import { GroupTurns } from './group-turns.js';
import { READ_AHEAD } from './message-reads.js';
import { readEntries } from './read-entries.js';
import { roomBehind, type Room } from './room.js';
import { SegmentView } from './segment-view.js';

/** So many segments of a grouped queue are in view at most: behind that, what is free waits for what is held up. */
export const WINDOW_SEGMENTS = 100;
/** So long a grouped queue looks on for more when it has something: well below the time that a turn may take. */
const LOOK_ON_MS = 50;

export class PriorityHead {
  readonly priority: number;
  /** There is nothing to take, and whatever changes that is watched. */
  quiet = false;
  readonly #queue: Queue;
  readonly #control: ControlSession;
  readonly #paths: QueuePaths;
  readonly #onChange: () => void;
  readonly #onClaimed: (entry: Entry) => void;
  /** Of all segments that there are; undefined: to be listed. */
  #known: number[] | undefined;
  readonly #segments = new Map<number, SegmentView>();
  readonly #groups = new GroupTurns();
  #directoryWatch: Watch | undefined;
  #tailWatch: { segment: number; watch: Watch | undefined } | undefined;
  /** The last segment has changed since it was listed. */
  #tailChanged = false;
  /** Segments that have nothing of ours and cannot be removed. */
  readonly #foreign = new Set<number>();

  constructor(queue: Queue, priority: number, onChange: () => void, onClaimed: (entry: Entry) => void) {
    this.#queue = queue;
    this.#control = queue.control;
    this.#paths = queue.paths;
    this.priority = priority;
    this.#onChange = onChange;
    this.#onClaimed = onClaimed;
  }

  /**
   * Others have taken meanwhile: what is not known to be quiet is listed anew. Of groups all is: which messages are
   * claimed must be read in the turn.
   */
  forget(): void {
    if (!this.quiet || this.#isGrouped) this.close();
  }

  close(): void {
    this.quiet = false;
    this.#known = undefined;
    for (const segment of this.#segments.values()) segment.drop();
    this.#segments.clear();
    this.#groups.clear();
    this.#directoryWatch?.cancel();
    this.#directoryWatch = undefined;
    this.#tailWatch?.watch?.cancel();
    this.#tailWatch = undefined;
    this.#tailChanged = false;
    this.#foreign.clear();
  }

  /**
   * A message that could not be taken, or whose claim has ended, may be taken again: what it is now is read when it is
   * its turn.
   */
  returned(entry: Entry): void {
    entry.state = 'unread';
    entry.until = undefined;
    this.#segments.get(entry.segment)?.returned(entry);
    this.#groups.returned(entry);
    this.quiet = false;
  }

  /**
   * It was taken for good.
   * @returns whether there may be something to take that was held up by it
   */
  gone(entry: Entry): boolean {
    if (!this.#isGrouped) return false;
    this.#groups.gone(entry);
    this.quiet = false;
    return true;
  }

  /** Whether it is in the view of now: not, when its segment was listed anew without it. */
  has(entry: Entry): boolean {
    return this.#segments.get(entry.segment)?.entries.includes(entry) === true;
  }

  /** Puts back what was assigned and not taken. */
  putBack(entry: Entry): void {
    entry.state = 'ready';
    this.#segments.get(entry.segment)?.returned(entry);
    this.#groups.returned(entry);
  }

  /**
   * The next messages, in order, read, as many as there is room for and have been listed.
   * None: there is nothing to take, and the head is quiet.
   *
   * @param isLast nothing is taken of another priority behind them. Otherwise what was pushed before must not be
   *   overtaken: when there is room left, the end was looked at once more, behind a watch
   */
  async next(room: Room, { isLast }: { isLast: boolean }, deadline: number): Promise<Entry[]> {
    const begunAt = performance.now();
    for (;;) {
      const found = await this.#collect(room, deadline);
      if (roomBehind(room, found) === undefined) return found;
      // Of groups there may be more far behind. To look for it must not cost a turn.
      const isLate = this.#isGrouped && performance.now() - begunAt > LOOK_ON_MS;
      if (isLate && isLast && found.length > 0) return found;
      if (await this.#listMore(deadline)) continue;
      if (isLast && found.length > 0) return found;
      // An event may have come while something else was read: then it is armed once more.
      if (this.#armed) {
        this.quiet = found.length === 0;
        return found;
      }
      await this.#arm(deadline);
    }
  }

  /** Whatever brings something to take is watched, and nothing has come since. */
  get #armed(): boolean {
    if (this.#known === undefined || this.#directoryWatch === undefined) return false;
    const last = this.#known.at(-1);
    if (last === undefined) return true; // the queue is being removed
    return this.#tailWatch?.segment === last && this.#tailWatch.watch !== undefined && !this.#tailChanged;
  }

  /**
   * Those at the front that can be taken. Where some are unread for which there is room, a number of them is read
   * ahead.
   */
  async #collect(room: Room, deadline: number): Promise<Entry[]> {
    for (;;) {
      const candidates = this.#front(room.messages);
      const unread = candidates.findIndex(({ state }) => state === 'unread');
      const found = unread < 0 ? candidates : candidates.slice(0, unread);
      if (unread < 0 || roomBehind(room, found) === undefined) return found;
      await readEntries(this.#queue, this.#front(unread + READ_AHEAD), this.#onClaimed, deadline);
    }
  }

  get #isGrouped(): boolean {
    return this.#queue.config.order === 'grouped';
  }

  #front(count: number): Entry[] {
    if (this.#isGrouped) return this.#groups.front([...this.#listed()], this.#segments, count);
    const front: Entry[] = [];
    const now = this.#queue.context.zooKeeperClock.now();
    for (const segment of this.#listed()) {
      segment.candidates(count, front, now);
      if (front.length >= count) break;
    }
    return front;
  }

  /** The segments that may be taken from, in order. */
  *#listed(): Generator<SegmentView> {
    const last = this.#known?.at(-1);
    for (const number of this.#known ?? []) {
      const segment = this.#segments.get(number);
      if (segment === undefined) break; // not listed yet: nothing behind it may go before it
      yield segment;
      // It was sealed since it was listed: what came before the seal is not known yet, and goes first.
      if (number !== last && !segment.complete) break;
    }
  }

  /** Lists what is next, without a watch. @returns false when everything that is known of is listed and used up */
  async #listMore(deadline: number): Promise<boolean> {
    if (this.#known === undefined) {
      const listing = await unless(this.#control.getChildren(this.#paths.priority(this.priority), deadline), 'NO_NODE');
      if (listing === undefined) throw new QueueGoneError();
      this.#learn(segmentsIn(listing.children));
      return true;
    }
    const last = this.#known.at(-1);
    for (const number of [...this.#known]) {
      const segment = this.#segments.get(number);
      const sealed = number !== last;
      const outdated = segment === undefined || (number === last && this.#tailChanged);
      if (outdated || (sealed && !segment.complete)) {
        if (segment === undefined && this.#isGrouped && this.#segments.size >= WINDOW_SEGMENTS) return false;
        if (number === last) this.#tailChanged = false;
        await this.#list(number, sealed, deadline);
        return true;
      }
      if (sealed && segment.complete && segment.empty) this.#leaveBehind(segment);
    }
    return false;
  }

  async #list(number: number, sealed: boolean, deadline: number): Promise<void> {
    const path = this.#paths.segment(this.priority, number);
    const listing = await unless(this.#control.getChildren(path, deadline), 'NO_NODE');
    this.#take(number, listing?.children, sealed);
  }

  #take(number: number, children: readonly string[] | undefined, sealed: boolean): void {
    if (children === undefined) {
      // Removed by whoever found it empty.
      this.#known = this.#known?.filter((other) => other !== number);
      this.#segments.get(number)?.drop();
      this.#segments.delete(number);
      return;
    }
    let segment = this.#segments.get(number);
    if (segment === undefined) {
      segment = new SegmentView(this.priority, number, this.#paths.segment(this.priority, number));
      this.#segments.set(number, segment);
    }
    segment.list(messagesIn(children));
    segment.complete = sealed;
  }

  #learn(listed: number[]): void {
    const numbers = listed.filter((number) => !this.#foreign.has(number));
    this.#known = numbers;
    for (const [number, segment] of this.#segments) {
      if (numbers.includes(number)) continue;
      segment.drop();
      this.#segments.delete(number);
    }
  }

  /** Watches what can bring something to take, and reads it behind the watch. */
  async #arm(deadline: number): Promise<void> {
    const { watches } = this.#control;
    if (this.#directoryWatch === undefined) {
      let fired = false;
      const listing = await watches.getChildren(
        this.#paths.priority(this.priority),
        () => {
          fired = true;
          this.#directoryWatch = undefined;
          this.#known = undefined;
          this.#changed();
        },
        deadline,
      );
      if (listing.value === undefined) throw new QueueGoneError();
      this.#learn(segmentsIn(listing.value.children));
      if (fired) listing.watch?.cancel();
      else this.#directoryWatch = listing.watch;
    }
    const last = this.#known?.at(-1);
    if (last === undefined || (this.#tailWatch?.segment === last && this.#tailWatch.watch !== undefined)) return;
    this.#tailWatch?.watch?.cancel();
    const tail: { segment: number; watch: Watch | undefined } = { segment: last, watch: undefined };
    this.#tailWatch = tail;
    // The listing that comes with the watch is newer than any change that was told before.
    this.#tailChanged = false;
    let fired = false;
    const listing = await watches.getChildren(
      this.#paths.segment(this.priority, last),
      () => {
        fired = true;
        tail.watch = undefined;
        if (this.#tailWatch !== tail) return;
        this.#tailChanged = true;
        this.#changed();
      },
      deadline,
    );
    // Closed meanwhile, nobody would ever cancel it.
    if (fired || this.#tailWatch !== tail) listing.watch?.cancel();
    else tail.watch = listing.watch;
    this.#take(last, listing.value?.children, false);
    if (listing.value === undefined) this.#known = undefined;
  }

  #changed(): void {
    this.quiet = false;
    this.#onChange();
  }

  /** Sealed and empty: nobody will ever need it again. Whoever else finds it so may be faster. */
  #leaveBehind(segment: SegmentView): void {
    this.#known = this.#known?.filter((number) => number !== segment.number);
    this.#segments.delete(segment.number);
    segment.drop();
    this.#control.delete(segment.path, undefined, performance.now() + 10_000).catch((error: unknown) => {
      // Something in it is none of ours, or there is no connection: whoever comes by with a new view tries again.
      if (isReason(error, 'NOT_EMPTY')) this.#foreign.add(segment.number);
    });
  }
}
