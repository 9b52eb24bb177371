/**
 * What a principal may do: in which namespace, with which kind of thing, and if wanted with some names only. The form
 * is the same in the file of API keys and in the claims of a token.
 *
 *   "*"                                                             everything everywhere
 *   { "default": ["read", "use"] }                                  in this namespace, whatever the kind
 *   { "prod": { "lock": ["use"], "*": ["read"] }, "*": ["read"] }   kind by kind; "*" stands for those that are not
 *                                                                   named
 *   { "prod": { "lock": { "scopes": ["use"], "names": ["jobs.*"] } } }                     with these names only
 *   { "prod": { "config": [{ "scopes": ["read"] }, { "scopes": ["use"], "names": ["app/*"] }] } }   with some names
 *                                                                                                   more than with
 *                                                                                                   others
 *
 * A kind that is none is refused: with `*` beside it, what was to be narrowed would stay open.
 *
 * A name is meant exactly, and with a `*` at its end as a prefix; `*` elsewhere is refused. The names of configuration
 * keys are whole keys: `app/*` covers `app/db/host`, not `app`. Leases are known by their ids and transactions by their
 * participants.
 *
 * A request that names nothing, such as the creation of a lease or a list, needs the scope for some name; the list then
 * shows those names that may be read.
 */
import { z } from 'zod';
import type { Scope } from '../frame/exchange.js';

export const NAME = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/, 'must be 1 to 200 of A-Z a-z 0-9 . _ ~ -');
const NAME_OR_ALL = z.union([NAME, z.literal('*')]);
const SCOPES = z.array(z.enum(['read', 'use', 'admin']));
const NAMES = z.array(
  z.string().regex(/^(?=.)[A-Za-z0-9._~/-]{0,1024}\*?$/, 'must be a name, or the begin of names and "*"'),
);
const GRANT = z.strictObject({ scopes: SCOPES, names: NAMES.optional() });
const OF_KIND = z.union([SCOPES, GRANT, z.array(GRANT)]);

/** The kinds of the contract. */
export const KINDS = [
  'barrier',
  'config',
  'contention',
  'counter',
  'double-barrier',
  'election',
  'group',
  'lease',
  'lock',
  'pool',
  'queue',
  'run',
  'rwlock',
  'schedule',
  'semaphore',
  'status',
  'transaction',
] as const;

export const NAMESPACES = z
  .union([z.literal('*'), z.record(NAME_OR_ALL, z.union([SCOPES, z.record(NAME_OR_ALL, OF_KIND)]))])
  .superRefine((namespaces, context) => {
    for (const [namespace, kinds] of Object.entries(namespaces === '*' ? {} : namespaces))
      for (const kind of Array.isArray(kinds) ? [] : Object.keys(kinds))
        if (kind !== '*' && !(KINDS as readonly string[]).includes(kind))
          context.addIssue({
            code: 'custom',
            path: [namespace, kind],
            message: `there is no such kind; it must be one of ${KINDS.join(', ')}, or *`,
          });
  });

export type Namespaces = z.infer<typeof NAMESPACES>;
type OfKind = z.infer<typeof OF_KIND>;

/** What a request wants to do, in words that a refusal repeats. */
export interface Asked {
  readonly scopes: readonly Scope[];
  /** Undefined: the namespace of the lease, whose token is not open yet. */
  readonly namespace: string | undefined;
  readonly kind: string;
  /** Undefined: any name. */
  readonly name: string | undefined;
}

export interface Permissions {
  /**
   * @param namespace undefined: whether it may in any namespace
   * @param name undefined: whether it may for any name
   */
  allows(kind: string, scope: Scope, namespace: string | undefined, name?: string): boolean;
}

export const EVERYTHING: Permissions = { allows: () => true };

interface Grant {
  readonly scopes: ReadonlySet<Scope>;
  readonly covers: (name: string) => boolean;
}

/** The kinds of one namespace; everything in it under `*`. */
type Kinds = ReadonlyMap<string, readonly Grant[]>;

/** Prepared once per file or token, because every request asks. */
export function permissionsOf(namespaces: Namespaces): Permissions {
  if (namespaces === '*') return EVERYTHING;
  const prepared = new Map<string, Kinds>(
    Object.entries(namespaces).map(([namespace, kinds]) => [
      namespace,
      new Map(Object.entries(Array.isArray(kinds) ? { '*': kinds } : kinds).map(([kind, of]) => [kind, grantsOf(of)])),
    ]),
  );
  return {
    allows(kind, scope, namespace, name) {
      const allowedBy = (kinds: Kinds | undefined): boolean =>
        (kinds?.get(kind) ?? kinds?.get('*') ?? []).some(
          ({ scopes, covers }) => scopes.has(scope) && (name === undefined || covers(name)),
        );
      if (namespace === undefined) return [...prepared.values()].some(allowedBy);
      return allowedBy(prepared.get(namespace) ?? prepared.get('*'));
    },
  };
}

function grantsOf(ofKind: OfKind): Grant[] {
  if (!Array.isArray(ofKind)) return [grantOf(ofKind)];
  const scopes = ofKind.filter((one) => typeof one === 'string');
  const grants = ofKind.filter((one) => typeof one !== 'string');
  return [...(scopes.length === 0 ? [] : [grantOf({ scopes })]), ...grants.map(grantOf)];
}

function grantOf({ scopes, names }: z.infer<typeof GRANT>): Grant {
  if (names === undefined) return { scopes: new Set(scopes), covers: () => true };
  const exact = new Set(names.filter((name) => !name.endsWith('*')));
  const prefixes = names.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return {
    scopes: new Set(scopes),
    covers: (name) => exact.has(name) || prefixes.some((prefix) => name.startsWith(prefix)),
  };
}
