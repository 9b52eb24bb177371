/**
 * Jute, ZooKeeper's serialisation: the few types that the protocol uses, written and read by position.
 *
 * The library's own records look up every field by name and pattern on each use. Requests are therefore written and
 * read by hand here, with the reply's real shape (`create2` answers a Stat, `multiRead` a list of results). Every read
 * is checked against the end of the frame: a malformed frame becomes a `ProtocolError`, which ends the connection and
 * nothing else.
 *
 * 64-bit integers: zxids and times are numbers (a zxid stays under 2^53 for the first 2 million leader epochs; beyond
 * that reading fails rather than rounds), session ids are bigints.
 *
 * Source: zookeeper.jute of ZooKeeper 3.9.
 */

export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

const TWO_TO_32 = 2 ** 32;
const LONG_HIGH_MAX = 2 ** 21;
const INITIAL_BYTES = 256;

export class Writer {
  #buffer: Buffer;
  #length = 0;

  constructor(initialBytes = INITIAL_BYTES) {
    this.#buffer = Buffer.allocUnsafe(initialBytes);
  }

  get length(): number {
    return this.#length;
  }

  int(value: number): this {
    this.#reserve(4);
    this.#length = this.#buffer.writeInt32BE(value, this.#length);
    return this;
  }

  /** A 64-bit integer given as a safe integer. */
  long(value: number): this {
    this.#reserve(8);
    this.#buffer.writeInt32BE(Math.floor(value / TWO_TO_32), this.#length);
    this.#length = this.#buffer.writeUInt32BE(value >>> 0, this.#length + 4);
    return this;
  }

  boolean(value: boolean): this {
    this.#reserve(1);
    this.#length = this.#buffer.writeUInt8(value ? 1 : 0, this.#length);
    return this;
  }

  string(value: string): this {
    // The text is written first and its length measured from that; a code unit takes at most three bytes.
    this.#reserve(4 + value.length * 3);
    const at = this.#length;
    const bytes = this.#buffer.write(value, at + 4, 'utf8');
    this.#buffer.writeInt32BE(bytes, at);
    this.#length = at + 4 + bytes;
    return this;
  }

  strings(values: readonly string[]): this {
    this.int(values.length);
    for (const value of values) this.string(value);
    return this;
  }

  bytes(value: Uint8Array): this {
    this.int(value.length);
    return this.raw(value);
  }

  /** Bytes without a length in front. */
  raw(value: Uint8Array): this {
    this.#reserve(value.length);
    this.#buffer.set(value, this.#length);
    this.#length += value.length;
    return this;
  }

  /** The bytes written; the writer must not be used afterwards. */
  finish(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** The same with the first four bytes overwritten by the length of the rest: a frame. */
  finishFrame(): Buffer {
    this.#buffer.writeInt32BE(this.#length - 4, 0);
    return this.finish();
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2));
    this.#buffer.copy(grown, 0, 0, this.#length);
    this.#buffer = grown;
  }
}

/** See `Zxids`. */
export interface Numbering {
  of(zxid: number): number;
}

export class Reader {
  readonly #buffer: Buffer;
  #offset = 0;

  readonly #zxids: Numbering | undefined;

  constructor(buffer: Buffer, zxids?: Numbering) {
    this.#buffer = buffer;
    this.#zxids = zxids;
  }

  get remaining(): number {
    return this.#buffer.length - this.#offset;
  }

  int(): number {
    const at = this.#take(4);
    return this.#buffer.readInt32BE(at);
  }

  long(): number {
    const at = this.#take(8);
    const high = this.#buffer.readInt32BE(at);
    if (high >= LONG_HIGH_MAX || high < -LONG_HIGH_MAX) throw new ProtocolError('a 64-bit integer is beyond 2^53');
    return high * TWO_TO_32 + this.#buffer.readUInt32BE(at + 4);
  }

  /** A transaction id, numbered as here (`zxids.ts`). */
  zxid(): number {
    const zxid = this.long();
    return this.#zxids === undefined ? zxid : this.#zxids.of(zxid);
  }

  bigLong(): bigint {
    return this.#buffer.readBigInt64BE(this.#take(8));
  }

  boolean(): boolean {
    return this.#buffer[this.#take(1)] !== 0;
  }

  string(): string {
    const length = this.#length();
    const at = this.#take(length);
    return this.#buffer.toString('utf8', at, at + length);
  }

  /** A copy, so that a small value does not keep the socket's whole chunk alive. A null buffer reads as empty. */
  bytes(): Buffer {
    const length = this.#length();
    const at = this.#take(length);
    return Buffer.from(this.#buffer.subarray(at, at + length));
  }

  vector<T>(item: () => T): T[] {
    const count = this.#length();
    if (count > this.remaining) throw new ProtocolError(`a vector of ${count} items does not fit its frame`);
    const items = new Array<T>(count);
    for (let i = 0; i < count; i += 1) items[i] = item();
    return items;
  }

  /** A length or count; null is written as -1 and reads as 0. */
  #length(): number {
    const length = this.int();
    if (length < -1) throw new ProtocolError(`a length is ${length}`);
    return length === -1 ? 0 : length;
  }

  #take(bytes: number): number {
    const at = this.#offset;
    if (at + bytes > this.#buffer.length)
      throw new ProtocolError(`a frame ends ${at + bytes - this.#buffer.length} bytes early`);
    this.#offset = at + bytes;
    return at;
  }
}
