/** A state now, and again whenever it has changed: by long poll, through whichever replica answers. */
import type { Context } from '../context.js';
import type { CallOptions } from '../gateways/gateways.js';

export interface ObserveOptions {
  /** Ends it: the loop over it is left. */
  signal?: AbortSignal;
}

/** What a request says to learn of the next state. */
export interface Look {
  query: { waitMs: number };
  headers: { 'If-None-Match'?: string };
}

/** Without a body if the state still has the ETag of `If-None-Match`. */
interface Seen<T> {
  headers: Readonly<Record<string, string | undefined>>;
  body: T | undefined;
}

/** Of states that follow each other quickly, only the last is sure to be seen. It goes on if nobody answers. */
export async function* observe<T>(
  { rounds, keeper }: Context,
  { signal }: ObserveOptions,
  read: (look: Look, options: CallOptions) => Promise<Seen<T>>,
): AsyncGenerator<T, void> {
  let etag: string | undefined;
  while (!signal?.aborted) {
    keeper.closed.throwIfAborted();
    const round = etag === undefined ? { waitMs: 0, last: false } : rounds.next(Infinity);
    const look = { query: { waitMs: round.waitMs }, headers: etag === undefined ? {} : { 'If-None-Match': etag } };
    const options = { signals: [signal, keeper.closed], ...(etag !== undefined && { patienceMs: Infinity }) };
    try {
      const seen = await read(look, options);
      if (seen.body === undefined) continue;
      etag = seen.headers['etag'];
      yield seen.body;
    } catch (error) {
      if (signal?.aborted) return;
      if (!rounds.tooLong(error, round)) throw error;
    }
  }
}

/** The body of an answer to a request without `If-None-Match`. */
export function shown<T>({ body }: { body: T | undefined }): T {
  if (body === undefined) throw new TypeError('304 without If-None-Match');
  return body;
}
