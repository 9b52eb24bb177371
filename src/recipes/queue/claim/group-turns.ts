/**
 * Which messages of a grouped queue may be taken: of each group the first one that is still there (protocol C93). And
 * which groups come first: those that have not been served for longest.
 *
 * A group that has nothing to take (its first message is being claimed, or is claimed) leaves `#turns`, and returns to
 * its end when that changes. So a take looks only at groups that have something, and costs the same however many there
 * are, and however many are held up.
 */
import { comparePlaces } from '../paths.js';
import type { Entry } from './entry.js';
import type { SegmentView } from './segment-view.js';

/** So many groups are remembered over the end of a turn, to be served behind the others in the next one. */
const REMEMBERED = 1_000;
/** So many messages that are gone are kept in front of a line. */
const GONE_MAX = 1_000;

/** The messages of one group, in order. */
interface Line {
  entries: Entry[];
  /** What is before it is gone. */
  next: number;
}

export class GroupTurns {
  readonly #lines = new Map<string, Line>();
  /** Groups that may have something to take, the next one first. */
  readonly #turns = new Set<string>();
  /** The messages of each segment, as they were put into lines. */
  readonly #seen = new Map<number, readonly Entry[]>();
  readonly #inLine = new Set<Entry>();
  /** Groups that were served last, the latest at the end. */
  readonly #served = new Set<string>();

  /**
   * The messages that may be taken next, at most one of a group; those that are unread must be read first.
   * @param listed the segments that may be taken from, in order
   * @param all that are in the view, by number
   */
  front(listed: readonly SegmentView[], all: ReadonlyMap<number, SegmentView>, count: number): Entry[] {
    this.#learn(listed, all);
    const front: Entry[] = [];
    for (const group of this.#turns) {
      if (front.length >= count) break;
      const first = this.#first(group);
      if (first?.state === 'ready' || first?.state === 'unread') {
        front.push(first);
        continue;
      }
      this.#turns.delete(group);
      if (first !== undefined) this.#remember(group);
    }
    return front;
  }

  /** It was not taken, or its claim has ended: its group may have something to take. */
  returned(entry: Entry): void {
    const group = groupOf(entry);
    if (this.#lines.has(group)) this.#turns.add(group);
  }

  /** It is gone, because it was delivered, most likely: the next of its group is behind the other groups. */
  gone(entry: Entry): void {
    const group = groupOf(entry);
    this.#turns.delete(group);
    if (entry.group !== undefined) this.#remember(group);
    if (this.#lines.has(group)) this.#turns.add(group);
  }

  /** The view is made anew. */
  clear(): void {
    this.#lines.clear();
    this.#turns.clear();
    this.#seen.clear();
    this.#inLine.clear();
  }

  #first(group: string): Entry | undefined {
    const line = this.#lines.get(group);
    if (line === undefined) return undefined;
    for (; line.next < line.entries.length; line.next += 1) {
      const entry = line.entries[line.next] as Entry;
      if (entry.state !== 'gone') {
        if (line.next >= GONE_MAX) {
          line.entries.splice(0, line.next);
          line.next = 0;
        }
        return entry;
      }
      this.#inLine.delete(entry);
    }
    this.#lines.delete(group);
    return undefined;
  }

  #learn(listed: readonly SegmentView[], all: ReadonlyMap<number, SegmentView>): void {
    const fresh = new Set<string>();
    for (const { number, entries } of listed) {
      const seen = this.#seen.get(number);
      if (seen === entries) continue;
      this.#seen.set(number, entries);
      this.#left(seen ?? []);
      for (const entry of entries) {
        if (entry.state === 'gone' || this.#inLine.has(entry)) continue;
        fresh.add(this.#add(entry));
      }
    }
    for (const [number, seen] of this.#seen) {
      if (all.has(number)) continue;
      this.#seen.delete(number);
      this.#left(seen);
    }
    for (const group of fresh) if (!this.#served.has(group)) this.#turns.add(group);
    if (fresh.size > 0) for (const group of this.#served) if (fresh.has(group)) this.#turns.add(group);
  }

  /** Of those that a listing shows no more, the groups may go on. */
  #left(entries: readonly Entry[]): void {
    for (const entry of entries) if (entry.state === 'gone') this.returned(entry);
  }

  /** @returns its group */
  #add(entry: Entry): string {
    const group = groupOf(entry);
    this.#inLine.add(entry);
    const line = this.#lines.get(group);
    if (line === undefined) {
      this.#lines.set(group, { entries: [entry], next: 0 });
      return group;
    }
    const last = line.entries.at(-1) as Entry;
    line.entries.push(entry);
    if (comparePlaces(last, entry) > 0) {
      line.entries = line.entries.slice(line.next).sort(comparePlaces);
      line.next = 0;
    }
    return group;
  }

  #remember(group: string): void {
    this.#served.delete(group);
    this.#served.add(group);
    if (this.#served.size <= REMEMBERED) return;
    for (const oldest of this.#served) {
      this.#served.delete(oldest);
      return;
    }
  }
}

/** What has no group is one of its own. */
function groupOf({ group, path }: Entry): string {
  return group ?? path;
}
