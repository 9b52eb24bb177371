/**
 * One who only looks at an election: by its event stream, or by long polls, each for a change of what the last one
 * told.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Client } from '../../../support/http/client.js';
import { EventReader } from '../../../support/http/event-stream.js';

/** What observers are told of the leader. */
export interface SeenLeader {
  candidateId: string;
  leaseId: string;
  value: unknown;
  fencingToken: number;
  acknowledged: boolean;
}

const POLL_MS = 50_000;

export abstract class ElectionObserver {
  /** Everything that it was told, in order; null: nobody leads. */
  abstract readonly told: readonly (SeenLeader | null)[];
  abstract close(): Promise<void>;

  static byStream(replica: Client, name: string): Promise<ElectionObserver> {
    return StreamReader.open(replica, name);
  }

  static byLongPoll(replica: Client, name: string): Promise<ElectionObserver> {
    return Promise.resolve(new LongPoller(replica, name));
  }

  /** @throws when it was not told of this leader last, or ever of one with a lower fencing token than the one before */
  compare(leader: SeenLeader | null): void {
    const last = this.told.at(-1);
    if (!isDeepStrictEqual(last, leader))
      throw new Error(`an observer was told last of ${JSON.stringify(last)}, and ${JSON.stringify(leader)} leads`);
    const tokens = this.told.flatMap((each) => (each === null ? [] : [each.fencingToken]));
    if (tokens.some((token, i) => token < (tokens[i - 1] ?? 0)))
      throw new Error(`an observer was told of leaders with the tokens ${tokens.join(', ')}`);
  }
}

class StreamReader extends ElectionObserver {
  readonly #reader: EventReader;

  private constructor(reader: EventReader) {
    super();
    this.#reader = reader;
  }

  static async open(replica: Client, name: string): Promise<StreamReader> {
    return new StreamReader(await EventReader.open(replica.url, `/v1/elections/${name}/events`));
  }

  get told(): (SeenLeader | null)[] {
    return this.#reader.seen.map(({ data }) => leaderIn(data));
  }

  close(): Promise<void> {
    return this.#reader[Symbol.asyncDispose]();
  }
}

class LongPoller extends ElectionObserver {
  readonly told: (SeenLeader | null)[] = [];
  readonly #closed = new AbortController();
  readonly #polling: Promise<void>;

  constructor(replica: Client, name: string) {
    super();
    // It fails when it is closed, or the replica was killed.
    this.#polling = this.#poll(replica, `/v1/elections/${name}`).catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#polling;
  }

  async #poll(replica: Client, path: string): Promise<void> {
    const { signal } = this.#closed;
    for (let etag: string | undefined; ;) {
      const { status, headers, body } = await replica.call(
        'GET',
        etag === undefined ? path : `${path}?waitMs=${POLL_MS}`,
        { signal, ...(etag !== undefined && { headers: { 'if-none-match': etag } }) },
      );
      if (status === 304) continue;
      if (status !== 200) throw new Error(`the long poll was answered ${status}`);
      this.told.push(leaderIn(body));
      etag = String(headers['etag']);
    }
  }
}

function leaderIn({ leader }: { leader: SeenLeader | null }): SeenLeader | null {
  return leader === null ? null : seenLeader(leader);
}

export function seenLeader({ candidateId, leaseId, value, fencingToken, acknowledged }: SeenLeader): SeenLeader {
  return { candidateId, leaseId, value, fencingToken, acknowledged };
}
