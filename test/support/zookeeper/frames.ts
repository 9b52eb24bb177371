/**
 * Cuts one direction of a ZooKeeper connection into its frames: four bytes of length, then that many bytes.
 *
 * What is not framed (a four letter word, TLS) is told by an absurd first length and passed on as it comes.
 */
const LENGTH_BYTES = 4;
const LARGEST_FRAME = 4 * 1024 * 1024; // the server's own limit is 1 MiB; 'srvr' and a TLS hello read as far more

export class FrameSplitter {
  #pending: Buffer = Buffer.alloc(0);
  #raw: boolean;

  constructor({ framed = true }: { framed?: boolean } = {}) {
    this.#raw = !framed;
  }

  get raw(): boolean {
    return this.#raw;
  }

  /** Whole frames (length included) in `chunk` and what was left from before; a rest is kept. */
  push(chunk: Buffer): Buffer[] {
    if (this.#raw) return [chunk];
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const frames: Buffer[] = [];
    while (this.#pending.length >= LENGTH_BYTES) {
      const length = this.#pending.readUInt32BE(0);
      if (length > LARGEST_FRAME) {
        this.#raw = true;
        frames.push(this.#pending);
        this.#pending = Buffer.alloc(0);
        break;
      }
      const size = LENGTH_BYTES + length;
      if (this.#pending.length < size) break;
      frames.push(this.#pending.subarray(0, size));
      this.#pending = this.#pending.subarray(size);
    }
    return frames;
  }

  /** The rest that is not a whole frame: passed on when the sender closes. */
  flush(): Buffer {
    const rest = this.#pending;
    this.#pending = Buffer.alloc(0);
    return rest;
  }
}

/** `xid` and opcode of a request frame (not of the handshake, which has neither). */
export function requestHeader(frame: Buffer): { xid: number; opcode: number } | undefined {
  if (frame.length < LENGTH_BYTES + 8) return undefined;
  return { xid: frame.readInt32BE(LENGTH_BYTES), opcode: frame.readInt32BE(LENGTH_BYTES + 4) };
}

/** `xid` of a reply frame; −1 is a watch event, −2 a ping. */
export function replyXid(frame: Buffer): number | undefined {
  return frame.length < LENGTH_BYTES + 4 ? undefined : frame.readInt32BE(LENGTH_BYTES);
}
