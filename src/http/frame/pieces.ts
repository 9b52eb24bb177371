/**
 * The pieces in which Node delivers a body: a Buffer for each chunk on the wire, and for each read of the connection.
 *
 * A Buffer takes some 270 bytes besides its content, so a body in chunks of one byte would take 270 times its length,
 * and a turn of the parser per byte. Short pieces are therefore joined as they arrive, also those of a request that
 * waits for its turn and of a body that nobody reads, and their number may not exceed what the length of the body
 * explains.
 */
import { PosternError } from '../../errors.js';

/**
 * A client that writes JSON value by value sends a chunk every three bytes; short bodies may be written like that. Not
 * a setting: more pieces than this are the client's mistake, and all bodies together have a bound of their own.
 */
const PIECES_FREE = 1_024;
/** For the rest of a body, on average. */
const BYTES_PER_PIECE_MIN = 64;
/** Shorter pieces are joined to at least this size. */
const WHOLE_BYTES = 1_024;

/** The pieces of one body. */
export class Pieces {
  #count = 0;
  #bytes = 0;
  /** A short piece as it came, or the buffer that joins several, filled up to `#heldBytes`. */
  #held: Buffer | undefined;
  #heldBytes = 0;

  /** @returns `malformed` if there are too many pieces for their bytes */
  admit(piece: Buffer): PosternError | undefined {
    this.#count += 1;
    this.#bytes += piece.length;
    if (this.#count - PIECES_FREE <= this.#bytes / BYTES_PER_PIECE_MIN) return undefined;
    return new PosternError(
      'malformed',
      `The body has ${this.#bytes} bytes in ${this.#count} chunks so far; at most ${PIECES_FREE} chunks, and one more ` +
        `for each ${BYTES_PER_PIECE_MIN} bytes, are read. Write it in larger pieces.`,
    );
  }

  /** @returns data long enough to be passed on; undefined if the piece is kept until there is more */
  add(piece: Buffer): Buffer | undefined {
    if (this.#held === undefined) {
      if (piece.length >= WHOLE_BYTES) return piece;
      this.#held = piece;
      this.#heldBytes = piece.length;
      return undefined;
    }
    if (this.#heldBytes + piece.length >= WHOLE_BYTES) return Buffer.concat([this.rest() as Buffer, piece]);
    if (this.#held.length === this.#heldBytes) {
      const first = this.#held;
      this.#held = Buffer.allocUnsafe(WHOLE_BYTES);
      first.copy(this.#held);
    }
    piece.copy(this.#held, this.#heldBytes);
    this.#heldBytes += piece.length;
    return undefined;
  }

  /** @returns the data kept so far; undefined if there is none */
  rest(): Buffer | undefined {
    const rest = this.#held?.subarray(0, this.#heldBytes);
    this.#held = undefined;
    return rest;
  }
}
