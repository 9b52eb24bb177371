/**
 * What a verified token says: who its principal is, and what that one may do. Permissions come from a claim that holds
 * the same as `namespaces` of an API key, and from rules, which are for identity providers that know nothing of this
 * gateway:
 *
 * {
 *   "rules": [
 *     { "when": {}, "namespaces": { "default": ["read"] } }, { "when": { "groups": ["platform", "sre-*"] },
 *     "namespaces": "*" }, { "when": { "repository": "acme/shop", "ref": "refs/heads/main" }, "namespaces": { "ci": {
 *     "lock": ["use"], "lease": ["use"] } } }
 *   ]
 * }
 *
 * A rule applies when each claim that it names has one of the values: exactly, or as a prefix when the value ends in
 * `*`. A claim may be a text or a list of texts; `realm_access.roles` is looked for under this name, then inside
 * `realm_access`. All rules that apply add up.
 */
import type { JWTPayload } from 'jose';
import { z } from 'zod';
import { PosternError } from '../../../errors.js';
import { NAMESPACES, permissionsOf, type Permissions } from '../permissions.js';
import { parseJson } from '../watched-file.js';

/**
 * Begins every principal of a token, so that no identity provider can name somebody the principal of an API key, with
 * that principal's leases and places. The file of keys may name such a principal on purpose.
 */
export const PRINCIPAL_PREFIX = 'oidc~';
/** The longest principal that lease tokens carry. */
const PRINCIPAL_MAX = 200;

const VALUES = z.union([z.string(), z.array(z.string()).min(1)]);
const RULES = z.strictObject({
  rules: z.array(z.strictObject({ when: z.record(z.string(), VALUES), namespaces: NAMESPACES })),
});

interface Rule {
  readonly applies: (claims: JWTPayload) => boolean;
  readonly permissions: Permissions;
}

/** @throws Error with a sentence about the first error found */
export function readRules(text: string): readonly Rule[] {
  return parseJson(text, RULES).rules.map(({ when, namespaces }) => {
    const conditions = Object.entries(when).map(([claim, values]) => ({ claim, covers: coverOf([values].flat()) }));
    return {
      applies: (claims) => conditions.every(({ claim, covers }) => textsOf(claimOf(claims, claim)).some(covers)),
      permissions: permissionsOf(namespaces),
    };
  });
}

export function permissionsOfClaims(claims: JWTPayload, claim: string, rules: readonly Rule[]): Permissions {
  const granted = rules.filter(({ applies }) => applies(claims)).map(({ permissions }) => permissions);
  const own = claimOf(claims, claim);
  if (own !== undefined) {
    const read = NAMESPACES.safeParse(own);
    if (!read.success)
      throw unusable(`claim "${claim}" does not say what the token may do in a form that is known here`);
    granted.push(permissionsOf(read.data));
  }
  return { allows: (...question) => granted.some((permissions) => permissions.allows(...question)) };
}

/**
 * Characters other than letters, digits, `.`, `_` and `-` are written as `~` and two hex digits per byte, so that
 * different claims are different principals.
 */
export function principalOf(claims: JWTPayload, claim: string): string {
  const value = claimOf(claims, claim);
  if (typeof value !== 'string' || value === '')
    throw unusable(`claim "${claim}", which names its principal, is missing`);
  // A lone surrogate has no bytes of its own: each would be written as the same replacement character.
  if (/\p{Surrogate}/u.test(value))
    throw unusable(`claim "${claim}", which names its principal, is not well-formed text`);
  const id = PRINCIPAL_PREFIX + value.replace(/[^A-Za-z0-9._-]/gu, escape);
  if (id.length > PRINCIPAL_MAX)
    throw unusable(`claim "${claim}" makes a principal of ${id.length} characters; it may have ${PRINCIPAL_MAX}`);
  return id;
}

function escape(character: string): string {
  return [...Buffer.from(character)].map((byte) => `~${byte.toString(16).padStart(2, '0').toUpperCase()}`).join('');
}

function claimOf(claims: object, name: string): unknown {
  if (Object.hasOwn(claims, name)) return (claims as Record<string, unknown>)[name];
  const dot = name.indexOf('.');
  if (dot === -1) return undefined;
  const outer = Object.hasOwn(claims, name.slice(0, dot))
    ? (claims as Record<string, unknown>)[name.slice(0, dot)]
    : undefined;
  return typeof outer === 'object' && outer !== null ? claimOf(outer, name.slice(dot + 1)) : undefined;
}

function textsOf(value: unknown): string[] {
  return [value].flat().filter((one) => typeof one === 'string');
}

function coverOf(values: readonly string[]): (text: string) => boolean {
  return (text) => values.some((value) => (value.endsWith('*') ? text.startsWith(value.slice(0, -1)) : text === value));
}

export function unusable(reason: string): PosternError {
  return new PosternError('unauthenticated', `This token cannot be used here: its ${reason}.`);
}
