/** One segment as it was listed, and the state of its messages since. */
import { newEntry, type Entry } from './entry.js';
import { isExpired, messageName, type MessageInSegment } from '../paths.js';

export class SegmentView {
  readonly number: number;
  /** It was listed after it was known to be sealed: what is not in the list will never come (protocol C23). */
  complete = false;
  readonly #path: string;
  readonly #priority: number;
  #entries: Entry[] = [];
  /** Nothing before this index is to be taken. */
  #cursor = 0;

  constructor(priority: number, number: number, path: string) {
    this.#priority = priority;
    this.number = number;
    this.#path = path;
  }

  get path(): string {
    return this.#path;
  }

  get entries(): readonly Entry[] {
    return this.#entries;
  }

  /** Whether everything that was in it has gone. */
  get empty(): boolean {
    return this.#entries.every(({ state }) => state === 'gone');
  }

  /** Takes a new listing over. @param messages in order */
  list(messages: readonly MessageInSegment[]): void {
    const known = new Map(this.#entries.map((entry) => [entry.sequence, entry]));
    this.#entries = messages.map((message) => {
      const { sequence } = message;
      const entry = known.get(sequence);
      known.delete(sequence);
      // A listing may be older than what was taken since: what is gone stays so.
      if (entry !== undefined) return entry;
      const place = { priority: this.#priority, segment: this.number, ...message };
      return newEntry(place, `${this.#path}/${messageName(message)}`);
    });
    for (const entry of known.values()) {
      if (entry.state === 'busy') this.#insert(entry);
      else leave(entry);
    }
    this.#cursor = 0;
  }

  /**
   * The next messages that may be taken, in order: at most `wanted`, of which those that are unread must be read first.
   * What has expired is passed over by its name, without a request.
   * @param now epoch ms on the ensemble's clock
   */
  candidates(wanted: number, into: Entry[], now: number): void {
    let first = true;
    for (let i = this.#cursor; i < this.#entries.length && into.length < wanted; i += 1) {
      const entry = this.#entries[i] as Entry;
      if ((entry.state !== 'ready' && entry.state !== 'unread') || isExpired(entry, now)) continue;
      if (first) this.#cursor = i;
      first = false;
      into.push(entry);
    }
    if (first) this.#cursor = this.#entries.length;
  }

  /** It may be taken again, in its old place. */
  returned(entry: Entry): void {
    const index = this.#entries.indexOf(entry);
    if (index >= 0) this.#cursor = Math.min(this.#cursor, index);
  }

  drop(): void {
    for (const entry of this.#entries) leave(entry);
  }

  #insert(entry: Entry): void {
    const at = this.#entries.findIndex(({ sequence }) => sequence > entry.sequence);
    this.#entries.splice(at < 0 ? this.#entries.length : at, 0, entry);
  }
}

function leave(entry: Entry): void {
  if (entry.state !== 'busy') entry.state = 'gone';
  entry.watch?.cancel();
  entry.watch = undefined;
}
