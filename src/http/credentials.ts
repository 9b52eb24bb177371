/**
 * The file of API keys: its form, and how a presented key is found in it. The file holds hashes only, so reading it gives
 * nobody a key. A key is random and long, so one round of SHA-256 is enough (there is nothing to guess).
 *
 * {
 *   "keys": [
 *     { "id": "ci", "hash": "sha256:<64 hex digits>", "principal": "ci", "namespaces": { "default": ["read", "use"] } },
 *     { "id": "deploy", "hash": "…", "namespaces": { "prod": { "lock": ["read", "use"], "lease": ["use"] }, "*": ["read"] } },
 *     { "id": "root", "hash": "…", "namespaces": "*" }
 *   ]
 * }
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import type { Principal, Scope } from './exchange.js';

const NAME = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/, 'must be 1 to 200 of A-Z a-z 0-9 . _ ~ -');
const SCOPES = z.array(z.enum(['read', 'use', 'admin']));
const NAME_OR_ALL = z.union([NAME, z.literal('*')]);

/** Scopes for everything in a namespace, or for each kind of thing. */
const SCOPES_PER_KIND = z.union([SCOPES, z.record(NAME_OR_ALL, SCOPES)]);

const KEY = z.strictObject({
  id: NAME,
  hash: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be "sha256:" and 64 lower-case hex digits'),
  principal: NAME.optional(),
  namespaces: z.union([z.literal('*'), z.record(NAME_OR_ALL, SCOPES_PER_KIND)]),
});

const FILE = z.strictObject({ keys: z.array(KEY) });

type KeyEntry = z.infer<typeof KEY>;

/** What a request may do. */
export interface Credential {
  readonly principal: Principal;
  allows(kind: string, scope: Scope, namespace: string): boolean;
}

/** Everybody, when no keys are configured. */
export const ANONYMOUS: Credential = { principal: { id: 'anonymous' }, allows: () => true };

export class Credentials {
  readonly #byHash = new Map<string, { hash: Buffer; credential: Credential }>();

  /** @throws Error with a sentence about the first thing that is wrong. */
  constructor(text: string) {
    const ids = new Set<string>();
    for (const key of parse(text)) {
      const hex = key.hash.slice('sha256:'.length);
      if (ids.has(key.id)) throw new Error(`the key id "${key.id}" is there twice`);
      if (this.#byHash.has(hex)) throw new Error(`the key "${key.id}" has the hash of another one`);
      ids.add(key.id);
      this.#byHash.set(hex, { hash: Buffer.from(hex, 'hex'), credential: credentialOf(key) });
    }
  }

  get size(): number {
    return this.#byHash.size;
  }

  /** The lookup is by hash, whose bytes a caller cannot steer, and the comparison takes the same time wherever they differ. */
  find(key: string): Credential | undefined {
    const hash = hashOf(key);
    const entry = this.#byHash.get(hash.toString('hex'));
    return entry !== undefined && timingSafeEqual(entry.hash, hash) ? entry.credential : undefined;
  }
}

export function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

function parse(text: string): KeyEntry[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error('it is not JSON', { cause: error });
  }
  const result = FILE.safeParse(value);
  if (result.success) return result.data.keys;
  const issue = result.error.issues[0];
  throw new Error(`${issue?.path.join('.') || 'the file'}: ${issue?.message ?? 'not valid'}`);
}

function credentialOf({ id, principal, namespaces }: KeyEntry): Credential {
  return {
    principal: { id: principal ?? id },
    allows(kind, scope, namespace) {
      if (namespaces === '*') return true;
      const scopes = own(namespaces, namespace) ?? own(namespaces, '*');
      if (scopes === undefined) return false;
      const ofKind = Array.isArray(scopes) ? scopes : (own(scopes, kind) ?? own(scopes, '*'));
      return ofKind?.includes(scope) ?? false;
    },
  };
}

/** A namespace may be called "constructor". */
function own<T>(record: Record<string, T>, name: string): T | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
