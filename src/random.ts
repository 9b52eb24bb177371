/**
 * Random identifiers, cut from a pool: asking the system for eight bytes costs as much as for thousands (3 % of the
 * time of an acquire). For names that nobody may hit by chance; secrets, keys and nonces are drawn one by one.
 */
import { randomFillSync } from 'node:crypto';

const POOL_BYTES = 8192;
const pool = Buffer.allocUnsafeSlow(POOL_BYTES);
let used = POOL_BYTES;

/** @param bytes number of random bytes, at most 64 */
export function randomId(bytes: number, encoding: 'hex' | 'base64url'): string {
  if (used + bytes > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString(encoding, used - bytes, used);
}
