/** Who leads, in a file. It does not say whether this program does: it stays behind if the sidecar is killed. */
import { UsageError } from '../exit.js';
import type { Output } from '../output.js';
import { replaceFile } from './files.js';
import type { Leadership } from './state.js';

export class LeaderFile {
  readonly #path: string | undefined;
  readonly #output: Output;

  /** @throws UsageError if it cannot be written */
  constructor(path: string | undefined, now: Leadership, output: Output) {
    this.#path = path;
    this.#output = output;
    try {
      this.#write(now);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new UsageError(`--file is "${path}", which cannot be written (${code})`);
    }
  }

  update(now: Leadership): void {
    try {
      this.#write(now);
    } catch (error) {
      this.#output.tell('file-failed', (error as Error).message, { file: this.#path });
    }
  }

  #write({ election, leader }: Leadership): void {
    if (this.#path !== undefined) replaceFile(this.#path, Buffer.from(`${JSON.stringify({ election, leader })}\n`));
  }
}
