/** The client of a subcommand that asks something and is done. */
import { readSync } from 'node:fs';
import { Postern, type Schemas } from '../../client/index.js';
import type { Given } from '../arguments/command.js';
import { environment } from '../environment.js';
import { clientOptions } from '../gateway.js';

const STDIN = 0;
const CHUNK_BYTES = 64 * 1024;
const RETRY_MS = 5;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Gives the client to `work`, and closes it. */
export async function withClient<T>(
  { values }: Pick<Given, 'values'>,
  work: (postern: Postern) => Promise<T>,
): Promise<T> {
  await using postern = new Postern(clientOptions(values, environment));
  return await work(postern);
}

/** What is listed of a kind, page by page. */
type Listings = {
  locks: Schemas['LockSummary'];
  config: Schemas['ConfigKeySummary'];
  counters: Schemas['Counter'];
  pools: Schemas['PoolSummary'];
  queues: Schemas['QueueSummary'];
  schedules: Schemas['ScheduleSummary'];
};

/** Each page is asked for when the items before it have been used. */
export async function* listed<K extends keyof Listings>(
  postern: Postern,
  kind: K,
  query: Readonly<Record<string, string | number | boolean | undefined>> = {},
): AsyncGenerator<Listings[K]> {
  for (let pageToken: string | undefined; ;) {
    // The lists of all kinds are asked for alike.
    const { body } = await postern.request(`GET /v1/${kind}` as 'GET /v1/locks', {
      query: { ...query, ...(pageToken !== undefined && { pageToken }) },
    });
    yield* body.items as unknown as Listings[K][];
    pageToken = body.nextPageToken;
    if (pageToken === undefined) return;
  }
}

/** All of standard input. */
export function readInput(): Buffer {
  return Buffer.concat([...inputChunks()]);
}

/** What standard input has, or an open file, as it comes. */
export function* inputChunks(descriptor: number = STDIN): Generator<Buffer> {
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      const bytes = readSync(descriptor, chunk);
      if (bytes === 0) return;
      yield chunk.subarray(0, bytes);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(sleeper, 0, 0, RETRY_MS); // whoever writes has made it non-blocking, and there is nothing yet
    }
  }
}
