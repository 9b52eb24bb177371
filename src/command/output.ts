/**
 * What the command writes. Never through `process.stdout` and `process.stderr`: these make a pipe non-blocking, also
 * for the job that shares it.
 */
import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { EXIT, Failure } from './exit.js';

const STDOUT = 1;
const STDERR = 2;
const RETRY_MS = 5;
/** What a terminal obeys or hides. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
/** The same without what lays out lines. */
const UNSEEN_IN_LINES = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const sleeper = new Int32Array(new SharedArrayBuffer(4));

/** @throws Failure: what is printed by halves must not pass for all there is, as a backup in a pipeline might */
function write(descriptor: number, content: string | Uint8Array): void {
  let rest: Uint8Array = Buffer.from(content);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'EAGAIN') throw notWritten(error as NodeJS.ErrnoException);
      Atomics.wait(sleeper, 0, 0, RETRY_MS); // somebody else has made the pipe non-blocking, and it is full
    }
  }
}

function notWritten(error: NodeJS.ErrnoException): Failure {
  const why = error.code === 'EPIPE' ? 'nobody reads it any more' : error.message;
  return new Failure(EXIT.notWritten, `the output was not written whole: ${why}`, {}, { cause: error });
}

export class Output {
  /** @param json whether each line is a JSON value, for programs */
  constructor(readonly json: boolean) {}

  /** A result: one line of JSON, or the text for people. */
  result(value: unknown, text: () => string): void {
    if (this.json) write(STDOUT, `${jsonText(value)}\n`);
    else this.lines(text());
  }

  /** For people. */
  lines(text: string): void {
    write(STDOUT, `${lined(text)}\n`);
  }

  /** What the command itself has to say, as it is and without a line end of its own. */
  raw(text: string): void {
    write(STDOUT, text);
  }

  /** A value as it was put, which need not be text. In a terminal it is shown as text. */
  bytes(content: Uint8Array): void {
    write(STDOUT, isatty(STDOUT) ? lined(Buffer.from(content).toString()) : content);
  }

  /** What happens meanwhile, on standard error. If that cannot be written, the work goes on all the same. */
  tell(event: string, sentence: string, details: Readonly<Record<string, unknown>> = {}): void {
    const line = this.json ? jsonText({ event, message: sentence, ...details }) : `postern: ${lined(sentence)}`;
    try {
      write(STDERR, `${line}\n`);
    } catch {
      // Nobody wants to know, or the disk of the log is full.
    }
  }
}

/** In one line, with everything written out that a terminal would obey or hide: anybody may choose a label. */
export function visible(text: string): string {
  return text.replace(UNSEEN, written);
}

/** The same of lines, which may have tabs. */
function lined(text: string): string {
  return text.replace(UNSEEN_IN_LINES, written);
}

function written(letter: string): string {
  return `\\u{${(letter.codePointAt(0) ?? 0).toString(16)}}`;
}

/** JSON of which the same is true: `JSON.stringify` escapes only what is below U+0020. */
export function jsonText(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(UNSEEN_IN_LINES, (letter) =>
    letter.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}

/** Columns for people, as wide as their longest cell; the last one is not padded. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows.map((row) => row.map(visible))];
  const widths = head.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all.map((row) => row.map((cell, column) => pad(cell, widths, column)).join('  ')).join('\n');
}

function pad(cell: string, widths: readonly number[], column: number): string {
  return column === widths.length - 1 ? cell : cell.padEnd(widths[column] ?? 0);
}
