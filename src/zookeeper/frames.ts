/**
 * Cuts the byte stream into frames: a 32-bit length and as many bytes.
 *
 * A frame is copied together once, when its last byte is there (the library joined the whole rest again for every
 * frame and every chunk: defect 22), and a length that cannot be right ends the connection (defect 9).
 */
import { ProtocolError } from './wire.js';

/** Far above any reply (a listing of a million short names has about 30 MB), far below what would hurt. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
const LENGTH_BYTES = 4;

export class FrameReader {
  #chunks: Buffer[] = [];
  #buffered = 0;
  #needed = LENGTH_BYTES;

  /** Forgets what has not become a frame. */
  reset(): void {
    this.#chunks = [];
    this.#buffered = 0;
    this.#needed = LENGTH_BYTES;
  }

  /** The frames that are complete with `chunk`, without their length, in order. @throws ProtocolError */
  *push(chunk: Buffer): Generator<Buffer, void, undefined> {
    this.#chunks.push(chunk);
    this.#buffered += chunk.length;
    while (this.#buffered >= this.#needed) {
      const buffer =
        this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#buffered);
      let offset = 0;
      this.#needed = LENGTH_BYTES;
      // Taken before each yield, so that the reader is right even when the consumer stops half-way.
      while (buffer.length - offset >= LENGTH_BYTES) {
        const length = buffer.readInt32BE(offset);
        if (length < 0 || length > MAX_FRAME_BYTES) {
          this.reset();
          throw new ProtocolError(`a frame of ${length} bytes was announced`);
        }
        if (buffer.length - offset < LENGTH_BYTES + length) {
          this.#needed = LENGTH_BYTES + length;
          break;
        }
        const start = offset + LENGTH_BYTES;
        offset = start + length;
        this.#keep(buffer, offset);
        yield buffer.subarray(start, offset);
      }
      this.#keep(buffer, offset);
    }
  }

  #keep(buffer: Buffer, offset: number): void {
    const rest = buffer.subarray(offset);
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#buffered = rest.length;
  }
}
