/** The client of a subcommand that asks something and is done. */
import { readFileSync } from 'node:fs';
import { Postern } from '../../client/index.js';
import type { Given } from '../arguments/command.js';
import { environment } from '../environment.js';
import { clientOptions } from '../gateway.js';

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
  return readFileSync(0);
}
