/**
 * A backup: lines of JSON. The first one says what it is, the last one how many there are between them, and has the
 * SHA-256 of all bytes before it: a backup that was cut off is told from one that is whole.
 *
 *   {"kind":"postern-export","format":1,"namespace":"shop"}
 *   {"kind":"config","key":"app/x","etag":"8-0","contentType":"application/json","value":1}
 *   {"kind":"counter","name":"visits","value":42}
 *   {"kind":"pool","name":"gpus","of":8,"quarantineMs":0}
 *   {"kind":"queue","name":"jobs","paused":false,"config":{"order":"fifo","dedupWindowMs":300000}}
 *   {"kind":"message","queue":"jobs","id":"5kqMlSJvT0uJqC1rVw0Yzg","body":1,…}     behind the line of its queue
 *   {"kind":"schedule","name":"nightly","cron":"0 3 * * *",…}
 *   {"kind":"end","records":5,"sha256":"…"}
 */
import { createHash } from 'node:crypto';
import { UsageError } from '../exit.js';
import { jsonText, type Output } from '../output.js';
import { objectIn } from '../plain/config-changes.js';

const FIRST = 'postern-export';
const LAST = 'end';
const FORMAT = 1;
const NEWLINE = 0x0a;
/** The largest value of a gateway is a tenth of it. */
const LINE_BYTES_MAX = 16 * 1024 * 1024;

export const RECORDS = ['config', 'counter', 'pool', 'queue', 'message', 'schedule'] as const;
export type RecordKind = (typeof RECORDS)[number];
export type Item = Readonly<Record<string, unknown>>;

export interface BackupRecord {
  readonly kind: RecordKind;
  readonly item: Item;
  /** In the file, from 1 on. */
  readonly line: number;
}

/** How many records of each kind there are. */
export type Counts = Partial<Record<RecordKind, number>>;

export class BackupWriter {
  readonly counts: Counts = {};
  readonly #hash = createHash('sha256');
  readonly #output: Output;
  #records = 0;

  constructor(output: Output, namespace: string | undefined) {
    this.#output = output;
    this.#line({ kind: FIRST, format: FORMAT, namespace });
  }

  write(kind: RecordKind, item: Item): void {
    this.#line({ kind, ...item });
    this.#records += 1;
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
  }

  end(): void {
    this.#output.raw(`${jsonText({ kind: LAST, records: this.#records, sha256: this.#hash.digest('hex') })}\n`);
  }

  #line(value: Item): void {
    const line = `${jsonText(value)}\n`;
    this.#hash.update(line);
    this.#output.raw(line);
  }
}

/**
 * The records of a backup, one after the other; whether it is whole is known at their end.
 * @throws UsageError with the number of the line
 */
export class BackupReader {
  /** The namespace that was exported; undefined: the one that the gateway has for those who name none. */
  readonly namespace: string | undefined;
  readonly #lines: Generator<Buffer>;
  readonly #hash = createHash('sha256');

  constructor(chunks: Iterable<Buffer>) {
    this.#lines = linesOf(chunks);
    const first = this.#lines.next();
    const { kind, format, namespace } = first.done === true ? {} : parsed(first.value, 1);
    if (kind !== FIRST) throw new UsageError('line 1 is not that of a backup: "postern export" makes one');
    if (format !== FORMAT)
      throw new UsageError(`line 1 has format ${jsonText(format)}; this version reads ${FORMAT} only`);
    this.namespace = typeof namespace === 'string' ? namespace : undefined;
    this.#hash.update(first.value as Buffer);
  }

  *records(): Generator<BackupRecord> {
    let number = 1;
    for (const bytes of this.#lines) {
      number += 1;
      const { kind, ...item } = parsed(bytes, number);
      if (kind === LAST) return this.#checkEnd(item, number);
      if (!RECORDS.includes(kind as RecordKind))
        throw new UsageError(`line ${number} has the kind ${jsonText(kind)}; it must be one of ${RECORDS.join(', ')}`);
      this.#hash.update(bytes);
      yield { kind: kind as RecordKind, item, line: number };
    }
    throw new UsageError(`the backup is cut off behind line ${number}: it has no line that ends it`);
  }

  #checkEnd({ records, sha256 }: Item, number: number): void {
    if (records !== number - 2 || sha256 !== this.#hash.digest('hex'))
      throw new UsageError(
        `the lines before line ${number} are not those that were exported: some were changed, lost or added`,
      );
    const more = this.#lines.next();
    if (more.done !== true) throw new UsageError(`line ${number + 1} stands behind the end of the backup`);
  }
}

function parsed(line: Buffer, number: number): Item {
  const value = objectIn(line.toString());
  if (typeof value === 'string') throw new UsageError(`line ${number} ${value}`);
  return value;
}

/** Each with its line end. */
function* linesOf(chunks: Iterable<Buffer>): Generator<Buffer> {
  let begun: Buffer[] = [];
  let bytes = 0;
  for (const chunk of chunks) {
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      yield Buffer.concat([...begun, chunk.subarray(from, end + 1)]);
      begun = [];
      bytes = 0;
      from = end + 1;
    }
    if (from === chunk.length) continue;
    begun.push(chunk.subarray(from));
    bytes += chunk.length - from;
    if (bytes > LINE_BYTES_MAX) throw new UsageError(`a line has more than ${LINE_BYTES_MAX} bytes`);
  }
  if (bytes > 0) yield Buffer.concat(begun);
}
