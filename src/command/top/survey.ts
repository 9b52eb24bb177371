/** What there is: the lists of names of each kind, read with long pauses, because each page costs the gateway. */
import { PosternError, type Postern } from '../../client/index.js';
import { pause } from '../../client/lease/clock.js';

/** By the names of their lists. */
export const KINDS = {
  locks: 'lock',
  rwlocks: 'rwlock',
  semaphores: 'semaphore',
  elections: 'election',
  queues: 'queue',
};
export type List = keyof typeof KINDS;

export interface Listed {
  readonly name: string;
  readonly holderCount?: number;
  readonly waiterCount?: number;
  readonly candidateCount?: number;
  readonly oldestWaitSince?: string | null;
  readonly depth?: number;
}

export interface Known {
  readonly items: readonly Listed[];
  /** Whether these are all that there are. */
  readonly complete: boolean;
}

const PAGE = 1_000;
const PAGES_MAX = 10;
/** The pauses between two surveys, of the time that one takes. */
const PAUSES = 9;

export class Survey {
  /** Missing: not read yet; `undefined`: this caller may not read them. */
  readonly known = new Map<List, Known | undefined>();
  readonly #postern: Postern;

  constructor(postern: Postern) {
    this.#postern = postern;
  }

  /** Again and again, until the signal aborts. @param intervalMs the shortest pause between two of them */
  async keep(intervalMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const start = performance.now();
      // What cannot be read now keeps its place: that nobody answers is seen with the next frame.
      await this.once().catch(() => undefined);
      await pause(Math.max(intervalMs, PAUSES * (performance.now() - start)), signal);
    }
  }

  async once(): Promise<void> {
    for (const list of Object.keys(KINDS) as List[]) this.known.set(list, await this.#read(list));
  }

  async #read(list: List): Promise<Known | undefined> {
    const items: Listed[] = [];
    try {
      for (let pageToken: string | undefined, page = 0; page < PAGES_MAX; page += 1) {
        const query = { limit: PAGE, ...(pageToken !== undefined && { pageToken }) };
        // The lists of all kinds are asked for alike.
        const { body } = await this.#postern.request(`GET /v1/${list}` as 'GET /v1/locks', { query });
        items.push(...(body.items as unknown as Listed[]));
        pageToken = body.nextPageToken;
        if (pageToken === undefined) return { items, complete: true };
      }
    } catch (error) {
      if (error instanceof PosternError && error.code === 'forbidden') return undefined;
      throw error;
    }
    return { items, complete: false };
  }
}
