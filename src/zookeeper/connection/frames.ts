/**
 * Cuts the byte stream into frames: a 32-bit length and that many bytes.
 *
 * What is incomplete is copied, because the socket reads into the same bytes again. A frame is joined once, when its
 * last byte has arrived (the library joined the whole rest again for every frame and every chunk: defect 22). An
 * impossible length ends the connection (defect 9).
 */
import { ProtocolError } from './wire.js';

/** Far above any reply (a listing of a million short names has about 30 MB), far below what would hurt. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
const LENGTH_BYTES = 4;

export class FrameReader {
  #chunks: Buffer[] = [];
  #buffered = 0;
  #needed = LENGTH_BYTES;

  /** Drops an incomplete frame. */
  reset(): void {
    if (this.#chunks.length > 0) this.#chunks = [];
    this.#buffered = 0;
    this.#needed = LENGTH_BYTES;
  }

  /**
   * The frames that `chunk` completes, without their lengths, in order. They are valid as long as `chunk` is. Nearly
   * every chunk is one frame, or several whole ones.
   * @throws ProtocolError
   */
  push(chunk: Buffer): Buffer[] {
    const frames: Buffer[] = [];
    this.#buffered += chunk.length;
    if (this.#buffered < this.#needed) {
      this.#chunks.push(Buffer.from(chunk));
      return frames;
    }
    let buffer = chunk;
    if (this.#chunks.length > 0) {
      this.#chunks.push(chunk);
      buffer = Buffer.concat(this.#chunks, this.#buffered);
    }
    this.reset();
    let offset = 0;
    while (buffer.length - offset >= LENGTH_BYTES) {
      const length = buffer.readInt32BE(offset);
      if (length < 0 || length > MAX_FRAME_BYTES) throw new ProtocolError(`a frame of ${length} bytes was announced`);
      const start = offset + LENGTH_BYTES;
      if (buffer.length - start < length) {
        this.#needed = LENGTH_BYTES + length;
        break;
      }
      offset = start + length;
      frames.push(buffer.subarray(start, offset));
    }
    if (offset < buffer.length) {
      this.#chunks.push(Buffer.from(buffer.subarray(offset)));
      this.#buffered = buffer.length - offset;
    }
    return frames;
  }
}
