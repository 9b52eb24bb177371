/** The client of a subcommand that asks something and is done. */
import { readSync } from 'node:fs';
import { Postern } from '../../client/index.js';
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

/** All of standard input. */
export function readInput(): Buffer {
  const chunks: Buffer[] = [];
  for (;;) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    try {
      const bytes = readSync(STDIN, chunk);
      if (bytes === 0) return Buffer.concat(chunks);
      chunks.push(chunk.subarray(0, bytes));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(sleeper, 0, 0, RETRY_MS); // whoever writes has made it non-blocking, and there is nothing yet
    }
  }
}
