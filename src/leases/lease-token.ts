/**
 * The lease token: everything a replica needs to continue with a lease, sealed so that only replicas can read it.
 *
 *   "lt1." base64url( key id (4) | nonce (12) | AES-256-GCM( payload ) | tag (16) )
 *   payload: version (1) | session id (8) | password (16) | lease secret (16) | ttl (4) | issued (8) |
 *            namespace, principal, label: length (2) and UTF-8 each
 *
 * The session id and password *are* the lease, so they never leave the gateway unsealed: whoever knows the id can
 * compute the password. Clients see a lease as its `leaseId`, an HMAC under the lease secret.
 *
 * Keys rotate: the first key of the ring seals, every key opens. Pure: no I/O.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { kept } from '../zookeeper/connection/session-identity.js';

export const KEY_BYTES = 32;
/** The prefix of every token. */
export const LEASE_TOKEN_PREFIX = 'lt1.';
const KEY_ID_BYTES = 4;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const PAYLOAD_VERSION = 1;
/** Longer tokens are not genuine: the longest has 3 texts of 200 characters, each up to 4 bytes. */
export const LEASE_TOKEN_MAX = 4_096;
const ASSOCIATED_DATA = Buffer.from('postern lease token 1');

export interface LeaseGrant {
  sessionId: Buffer;
  sessionPassword: Buffer;
  /** Random, never shown: it keys the leaseId and the names of the lease's znodes. */
  secret: Buffer;
  ttlMs: number;
  /** Epoch ms. */
  issuedAt: number;
  namespace: string;
  principal: string;
  label: string;
}

interface Key {
  id: Buffer;
  key: Buffer;
}

export class KeyRing {
  readonly #keys: readonly Key[];

  /** @param keys 32 bytes each, at least one; the first seals */
  constructor(keys: readonly Buffer[]) {
    if (keys.length === 0) throw new Error('a key ring needs a key');
    this.#keys = keys.map((key) => ({ key, id: createHash('sha256').update(key).digest().subarray(0, KEY_ID_BYTES) }));
  }

  seal(grant: LeaseGrant): string {
    return LEASE_TOKEN_PREFIX + this.sealBytes(encode(grant), ASSOCIATED_DATA).toString('base64url');
  }

  /**
   * @returns undefined if the token was not sealed under any key of the ring, or was altered. `stale`: it opens, but
   *   under a key that no longer seals, so the client should get a new one
   */
  open(token: string): { grant: LeaseGrant; stale: boolean } | undefined {
    if (!token.startsWith(LEASE_TOKEN_PREFIX) || token.length > LEASE_TOKEN_MAX) return undefined;
    const text = token.slice(LEASE_TOKEN_PREFIX.length);
    const bytes = Buffer.from(text, 'base64url');
    // Decoding skips what it cannot read, so one token would have endlessly many spellings.
    if (bytes.toString('base64url') !== text) return undefined;
    const opened = this.openBytes(bytes, ASSOCIATED_DATA);
    if (opened === undefined) return undefined;
    try {
      return { grant: decode(opened.payload), stale: opened.stale };
    } catch {
      return undefined;
    }
  }

  /** @param purpose bytes sealed for one purpose open for no other */
  sealBytes(payload: Buffer, purpose: Buffer): Buffer {
    const { id, key } = this.#keys[0] as Key;
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(purpose);
    const sealed = Buffer.concat([cipher.update(payload), cipher.final()]);
    return Buffer.concat([id, nonce, sealed, cipher.getAuthTag()]);
  }

  /** @returns undefined if they were not sealed for this purpose under any key of the ring */
  openBytes(bytes: Buffer, purpose: Buffer): { payload: Buffer; stale: boolean } | undefined {
    if (bytes.length < KEY_ID_BYTES + NONCE_BYTES + TAG_BYTES) return undefined;
    const keyId = bytes.subarray(0, KEY_ID_BYTES);
    const index = this.#keys.findIndex(({ id }) => id.equals(keyId));
    const key = this.#keys[index];
    if (key === undefined) return undefined;
    const nonce = bytes.subarray(KEY_ID_BYTES, KEY_ID_BYTES + NONCE_BYTES);
    const sealed = bytes.subarray(KEY_ID_BYTES + NONCE_BYTES, -TAG_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key.key, nonce)
      .setAAD(purpose)
      .setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      return { payload: Buffer.concat([decipher.update(sealed), decipher.final()]), stale: index > 0 };
    } catch {
      return undefined;
    }
  }
}

function encode(grant: LeaseGrant): Buffer {
  const fixed = Buffer.alloc(1 + 8 + 16 + 16 + 4 + 8);
  fixed.writeUInt8(PAYLOAD_VERSION, 0);
  grant.sessionId.copy(fixed, 1);
  grant.sessionPassword.copy(fixed, 9);
  grant.secret.copy(fixed, 25);
  fixed.writeUInt32BE(grant.ttlMs, 41);
  fixed.writeBigUInt64BE(BigInt(grant.issuedAt), 45);
  return Buffer.concat([fixed, ...[grant.namespace, grant.principal, grant.label].flatMap(encodeText)]);
}

function encodeText(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return [length, bytes];
}

function decode(payload: Buffer): LeaseGrant {
  if (payload.readUInt8(0) !== PAYLOAD_VERSION) throw new Error('unknown version');
  let offset = 53;
  const text = (): string => {
    const length = payload.readUInt16BE(offset);
    offset += 2 + length;
    return payload.toString('utf8', offset - length, offset);
  };
  const fixed = kept(payload.subarray(1, 41));
  return {
    sessionId: fixed.subarray(0, 8),
    sessionPassword: fixed.subarray(8, 24),
    secret: fixed.subarray(24),
    ttlMs: payload.readUInt32BE(41),
    issuedAt: Number(payload.readBigUInt64BE(45)),
    namespace: text(),
    principal: text(),
    label: text(),
  };
}
