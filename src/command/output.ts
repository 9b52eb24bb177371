/**
 * What the command writes. Never through `process.stdout` and `process.stderr`: these make a pipe non-blocking, also
 * for the job that shares it.
 */
import { writeSync } from 'node:fs';

const STDOUT = 1;
const STDERR = 2;
const RETRY_MS = 5;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** Nobody reads standard output any more, as after `| head`. */
export class OutputClosed extends Error {}

/** @throws OutputClosed */
function write(descriptor: number, content: string | Uint8Array): void {
  let rest: Uint8Array = Buffer.from(content);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EPIPE') throw new OutputClosed();
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(sleeper, 0, 0, RETRY_MS); // somebody else has made the pipe non-blocking, and it is full
    }
  }
}

export class Output {
  /** @param json whether each line is a JSON value, for programs */
  constructor(readonly json: boolean) {}

  /** A result: one line of JSON, or the text for people. */
  result(value: unknown, text: () => string): void {
    write(STDOUT, `${this.json ? JSON.stringify(value) : text()}\n`);
  }

  /** As it is, without a line end of its own. */
  raw(text: string): void {
    write(STDOUT, text);
  }

  /** The same of what need not be text. */
  bytes(content: Uint8Array): void {
    write(STDOUT, content);
  }

  /** What happens meanwhile, on standard error. */
  tell(event: string, sentence: string, details: Readonly<Record<string, unknown>> = {}): void {
    const line = this.json ? JSON.stringify({ event, message: sentence, ...details }) : `postern: ${shown(sentence)}`;
    try {
      write(STDERR, `${line}\n`);
    } catch (error) {
      if (!(error instanceof OutputClosed)) throw error; // nobody wants to know
    }
  }
}

/** With everything written out that a terminal would obey or hide: anybody may choose a label or a value. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (letter) => {
    const code = letter.codePointAt(0) ?? 0;
    return `\\u{${code.toString(16)}}`;
  });
}

/** Columns for people, as wide as their longest cell; the last one is not padded. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows.map((row) => row.map(visible))];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all.map((row) => row.map((cell, column) => pad(cell, widths, column)).join('  ')).join('\n');
}

/** Of more than one line. */
function shown(sentence: string): string {
  return sentence.split('\n').map(visible).join('\n');
}

function pad(cell: string, widths: readonly number[], column: number): string {
  return column === widths.length - 1 ? cell : cell.padEnd(widths[column] ?? 0);
}
