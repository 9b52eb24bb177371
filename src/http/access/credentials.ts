/**
 * The file of API keys: its form, and how a presented key is found in it. The file holds hashes only, so reading it
 * gives nobody a key. A key is random and long, so one round of SHA-256 is enough (there is nothing to guess).
 *
 * {
 *   "keys": [
 *     { "id": "ci", "hash": "sha256:<64 hex digits>", "principal": "ci", "namespaces": { "default": ["read", "use"] }
 *     }, { "id": "deploy", "hash": "…", "namespaces": { "prod": { "lock": ["read", "use"], "lease": ["use"] }, "*":
 *     ["read"] } }, { "id": "jobs", "hash": "…", "namespaces": { "prod": { "lock": { "scopes": ["use"], "names":
 *     ["jobs.*"] }, "lease": ["use"] } } }, { "id": "root", "hash": "…", "namespaces": "*" }
 *   ]
 * }
 *
 * Two keys may be those of one principal: so a key is replaced without a moment in which none works. What
 * `namespaces` may say: `permissions.ts`.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Principal } from '../frame/exchange.js';
import { parseJson } from './watched-file.js';
import { EVERYTHING, NAME, NAMESPACES, permissionsOf, type Permissions } from './permissions.js';

/** The prefix of keys made here; keys from elsewhere may begin differently. */
export const API_KEY_PREFIX = 'postern_';

const KEY = z.strictObject({
  id: NAME,
  hash: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be "sha256:" and 64 lower-case hex digits'),
  principal: NAME.optional(),
  namespaces: NAMESPACES,
});

const FILE = z.strictObject({ keys: z.array(KEY) });

type KeyEntry = z.infer<typeof KEY>;

/** What a request may do. */
export interface Credential extends Permissions {
  readonly principal: Principal;
  /** Which of the principal's keys was used, for the log. */
  readonly keyId?: string;
  /** When a token expires, epoch ms. */
  readonly until?: number;
}

/** Every caller, if no credentials are configured. */
export const ANONYMOUS: Credential = { principal: { id: 'anonymous' }, ...EVERYTHING };

export class Credentials {
  readonly #byHash = new Map<string, Credential>();
  /** Keys that were presented and found, so as many as there are at most: a digest costs more than most checks. */
  readonly #presented = new Map<string, Credential>();

  /** @throws Error with a sentence about the first error found */
  constructor(text: string) {
    const ids = new Set<string>();
    for (const key of parseJson(text, FILE).keys) {
      const hex = key.hash.slice('sha256:'.length);
      if (ids.has(key.id)) throw new Error(`the key id "${key.id}" is there twice`);
      if (this.#byHash.has(hex)) throw new Error(`the key "${key.id}" has the hash of another one`);
      ids.add(key.id);
      this.#byHash.set(hex, credentialOf(key));
    }
  }

  get size(): number {
    return this.#byHash.size;
  }

  /**
   * Both lookups are by a hash whose digits a caller cannot steer (V8 seeds that of a text at random): their timing
   * reveals nothing about the keys.
   */
  find(key: string): Credential | undefined {
    const presented = this.#presented.get(key);
    if (presented !== undefined) return presented;
    const credential = this.#byHash.get(hashOf(key));
    if (credential !== undefined) this.#presented.set(key, credential);
    return credential;
  }
}

/**
 * The key or token in an Authorization header: `Bearer`, or the password of `Basic`, which is all that Terraform and
 * FleetLock's clients can send. The user name says nothing.
 */
export function presentedIn(authorization: string): string | undefined {
  const bearer = /^Bearer +([^\s]+) *$/i.exec(authorization)?.[1];
  if (bearer !== undefined) return bearer;
  const basic = /^Basic +([A-Za-z0-9+/]+={0,2}) *$/i.exec(authorization)?.[1];
  if (basic === undefined) return undefined;
  return /^[^:]*:([^\s]+)$/.exec(Buffer.from(basic, 'base64').toString())?.[1];
}

/** Whether a header says that it has a user name and a password. */
export function isPassword(authorization = ''): boolean {
  return /^Basic /i.test(authorization);
}

/** Hexadecimal. */
export function hashOf(key: string): string {
  return hash('sha256', key);
}

function credentialOf({ id, principal, namespaces }: KeyEntry): Credential {
  return { principal: { id: principal ?? id }, keyId: id, ...permissionsOf(namespaces) };
}
