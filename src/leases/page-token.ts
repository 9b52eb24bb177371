/**
 * A page token for clients that must not know the name at which the page ends: sealed under the keys of the lease
 * tokens, and of constant length, so that not even the length of the name shows. It can be sent back for the same list
 * to any replica, and serves nothing else.
 *
 *   "pt1." base64url( KeyRing.sealBytes( length (2) | UTF-8 | zeros ) )
 */
import type { LeaseKeys } from './keys.js';

const PREFIX = 'pt1.';
/** The longest key of the configuration. */
const TEXT_BYTES_MAX = 1_024;
const LENGTH_BYTES = 2;

export class PageTokens {
  readonly #keys: LeaseKeys;

  constructor(keys: LeaseKeys) {
    this.#keys = keys;
  }

  /** @param list identifies the list that the place belongs to, with its namespace */
  async seal(list: string, place: string, deadline: number): Promise<string> {
    const payload = Buffer.alloc(LENGTH_BYTES + TEXT_BYTES_MAX);
    payload.writeUInt16BE(payload.write(place, LENGTH_BYTES));
    const ring = await this.#keys.ring(deadline);
    return PREFIX + ring.sealBytes(payload, purposeOf(list)).toString('base64url');
  }

  /** @returns undefined if the token was not sealed for this list */
  async open(list: string, token: string, deadline: number): Promise<string | undefined> {
    const ring = await this.#keys.ring(deadline);
    const payload = ring.openBytes(Buffer.from(token.slice(PREFIX.length), 'base64url'), purposeOf(list))?.payload;
    return payload?.toString('utf8', LENGTH_BYTES, LENGTH_BYTES + payload.readUInt16BE());
  }
}

/** Whether it looks like one: no other page token has a dot. */
export function isSealed(token: string): boolean {
  return token.startsWith(PREFIX);
}

function purposeOf(list: string): Buffer {
  return Buffer.from(`postern page token 1 ${list}`);
}
