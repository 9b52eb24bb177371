/**
 * Random identifiers, cut from a pool: to ask for eight bytes costs as much as to ask for thousands (3 % of the time of a request that takes
 * a lock). For names of things, that nobody else may hit by chance; secrets, keys and nonces are asked for one by one.
 */
import { randomFillSync } from 'node:crypto';

const POOL_BYTES = 8192;
const pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let used = POOL_BYTES;

/** @param bytes how many random bytes the text stands for, at most 64 */
export function randomId(bytes: number, encoding: 'hex' | 'base64url'): string {
  if (used + bytes > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString(encoding, used - bytes, used);
}
