/**
 * Reads messages, many per request. How large they are is known only when they are there. So of a queue as many are
 * read as fit into a small reply if they are like those that were read last; of one of which nothing is known, few; and
 * never so many that they are too much for the replica's one connection should all of them be of the largest.
 */
import { LruMap } from '../../../lru-map.js';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import type { MultiReadResult } from '../../../zookeeper/operations.js';
import type { QueuePaths } from '../paths.js';

/** Replies stay below this where messages are small. */
const REPLY_BYTES = 48 * 1024;
/** Whatever comes; a connection takes 64 MiB (`frames.ts`). */
const REPLY_BYTES_MAX = 48 * 1024 * 1024;
/** Of a message besides its body: attributes of the longest, and the note of a dead letter. */
const HEADER_BYTES_MAX = 128 * 1024;
const STAT_BYTES = 90;
const READ_MIN = 4;
/** So many at most. */
export const READ_AHEAD = 128;
/** Queues remembered, also while they are not in use. */
const REMEMBERED = 1_000;

/** Of a queue what is needed here. */
interface Source {
  readonly control: ControlSession;
  readonly paths: QueuePaths;
}

export class MessageReads {
  readonly #most: number;
  /** What a message takes, as far as was seen, by the queue's data directory. */
  readonly #typicalBytes = new LruMap<string, number>(REMEMBERED);

  /** @param maxMessageBytes of the largest body */
  constructor(maxMessageBytes: number) {
    this.#most = Math.min(READ_AHEAD, Math.floor(REPLY_BYTES_MAX / (maxMessageBytes + HEADER_BYTES_MAX)));
  }

  /** @returns of the first of these, as many as are read at once: at least one, where there is one */
  async read(
    { control, paths: { data } }: Source,
    paths: readonly string[],
    deadline: number,
  ): Promise<MultiReadResult[]> {
    const batch = paths.slice(0, this.#atOnce(data));
    try {
      const { results } = await control.multiRead(
        batch.map((path) => ({ type: 'getData', path })),
        deadline,
      );
      this.#learn(data, results);
      return results;
    } catch (error) {
      this.#typicalBytes.delete(data); // it may have been too much: the next time it is less
      throw error;
    }
  }

  #atOnce(data: string): number {
    const typical = this.#typicalBytes.get(data);
    if (typical === undefined) return READ_MIN;
    return Math.min(this.#most, Math.max(READ_MIN, Math.floor(REPLY_BYTES / (typical + STAT_BYTES))));
  }

  #learn(data: string, results: readonly MultiReadResult[]): void {
    let bytes = 0;
    let read = 0;
    for (const result of results) {
      if (!('data' in result)) continue;
      bytes += result.data.length;
      read += 1;
    }
    if (read === 0) return;
    const mean = bytes / read;
    const before = this.#typicalBytes.get(data) ?? mean;
    this.#typicalBytes.set(data, mean > before ? mean : (before * 3 + mean) / 4);
  }
}
