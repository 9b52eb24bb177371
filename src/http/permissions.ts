/**
 * What a principal may do: in which namespace, with which kind of thing, and if wanted with some names only. The form is the same in the
 * file of API keys and in the claims of a token.
 *
 *   "*"                                                             everything everywhere
 *   { "default": ["read", "use"] }                                  in this namespace, whatever the kind
 *   { "prod": { "lock": ["use"], "*": ["read"] }, "*": ["read"] }   kind by kind; "*" stands for those that are not named
 *   { "prod": { "lock": { "scopes": ["use"], "names": ["jobs.*"] } } }                     with these names only
 *   { "prod": { "config": [{ "scopes": ["read"] }, { "scopes": ["use"], "names": ["app/*"] }] } }   with some names more than with others
 *
 * A name is meant exactly, and with a `*` at its end as a prefix; `*` elsewhere is refused. The names of configuration keys are whole keys:
 * `app/*` covers `app/db/host`, not `app`. Leases are known by their ids and transactions by their participants.
 *
 * A request that names nothing, such as the creation of a lease or a list, needs the scope for some name; the list then shows those
 * names that may be read.
 */
import { z } from 'zod';
import type { Scope } from './exchange.js';

export const NAME = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9._~-]{1,200}$/, 'must be 1 to 200 of A-Z a-z 0-9 . _ ~ -');
const NAME_OR_ALL = z.union([NAME, z.literal('*')]);
const SCOPES = z.array(z.enum(['read', 'use', 'admin']));
const NAMES = z.array(
  z.string().regex(/^(?=.)[A-Za-z0-9._~/-]{0,1024}\*?$/, 'must be a name, or the begin of names and "*"'),
);
const GRANT = z.strictObject({ scopes: SCOPES, names: NAMES.optional() });
const OF_KIND = z.union([SCOPES, GRANT, z.array(GRANT)]);

export const NAMESPACES = z.union([
  z.literal('*'),
  z.record(NAME_OR_ALL, z.union([SCOPES, z.record(NAME_OR_ALL, OF_KIND)])),
]);

export type Namespaces = z.infer<typeof NAMESPACES>;
type OfKind = z.infer<typeof OF_KIND>;

export interface Permissions {
  /** @param name of the thing; without one, whether there is any name for which it may */
  allows(kind: string, scope: Scope, namespace: string, name?: string): boolean;
}

export const EVERYTHING: Permissions = { allows: () => true };

interface Grant {
  readonly scopes: ReadonlySet<Scope>;
  readonly covers: (name: string) => boolean;
}

/** Kinds of one namespace, or everything in it under `*`. */
type Kinds = ReadonlyMap<string, readonly Grant[]>;

/** Prepared once, when the file or the token is read: each request asks. */
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
      const kinds = prepared.get(namespace) ?? prepared.get('*');
      const grants = kinds?.get(kind) ?? kinds?.get('*') ?? [];
      return grants.some(({ scopes, covers }) => scopes.has(scope) && (name === undefined || covers(name)));
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
