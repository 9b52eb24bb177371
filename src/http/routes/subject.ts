/** Who asks, for which namespace, with which lease: the first lines of every handler. */
import { InvalidError, PosternError } from '../../errors.js';
import { DEFAULT_NAMESPACE } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { Leases } from '../../leases/leases.js';
import { type Page } from '../../page.js';
import type { Exchange, Scope } from '../exchange.js';

const PAGE_KEY = /^[A-Za-z0-9._~-]{1,200}$/;

/** The namespace of a request without a lease, after the check that the caller may do this there. */
export function namespaceOf(exchange: Exchange, scope: Scope): string {
  const namespace = exchange.namespace ?? DEFAULT_NAMESPACE;
  exchange.authorize(scope, namespace);
  return namespace;
}

/** As `namespaceOf`, for a request that needs no lease: when it brings one all the same, the namespace is that of the lease. */
export async function namespaceOfReader(exchange: Exchange, leases: Leases, scope: Scope = 'read'): Promise<string> {
  if (exchange.namespace !== undefined || exchange.leaseToken === undefined) return namespaceOf(exchange, scope);
  return (await leaseOf(exchange, leases, scope)).namespace;
}

/** The lease of the request, opened, after the check that the caller may do this in its namespace. */
export async function leaseOf(exchange: Exchange, leases: Leases, scope: Scope = 'use'): Promise<Lease> {
  const token = leaseTokenOf(exchange);
  const caller = { principal: exchange.principal.id, namespace: exchange.namespace };
  const { lease } = leases.openKnown(token, caller) ?? (await leases.open(token, caller, exchange.deadline));
  exchange.authorize(scope, lease.namespace);
  return lease;
}

/** The lease token of the request, unopened. */
export function leaseTokenOf({ leaseToken }: Exchange): string {
  if (leaseToken !== undefined) return leaseToken;
  throw new PosternError(
    'lease-token-required',
    'This request needs the header Lease-Token: the leaseToken that POST /v1/leases answered.',
  );
}

/** `requestId` of the body, else the Idempotency-Key, else none. */
export function requestIdOf(exchange: Exchange, body: { requestId?: string | undefined }): string {
  return body.requestId ?? exchange.idempotencyKey ?? '';
}

/** The page that a request for a list inside one thing asks for. @param pattern of the keys that its tokens stand for */
export function pageOf(exchange: Exchange, pattern = PAGE_KEY): Page {
  const { limit, pageToken, prefix } = exchange.query as { limit?: number; pageToken?: string; prefix?: string };
  return {
    limit: limit ?? 100,
    after: pageToken === undefined ? undefined : readPageToken(pageToken, pattern),
    prefix: prefix ?? '',
    shows: () => true,
  };
}

/** The page that a request for a list of names asks for, of which the caller sees those for which it has the scope. */
export function pageOfAllowed(exchange: Exchange, namespace: string, scope: Scope = 'read', pattern = PAGE_KEY): Page {
  return { ...pageOf(exchange, pattern), shows: (name) => exchange.allows(scope, namespace, { name }) };
}

/** The page of a list whose entries are numbered: its tokens are positions. */
export function positionPageOf(exchange: Exchange): { limit: number; after: number } {
  const { limit, after } = pageOf(exchange);
  const position = after === undefined ? 0 : Number(after);
  if (!Number.isSafeInteger(position) || position < 0)
    throw new InvalidError('pageToken', exchange.query['pageToken'], 'one that this list answered');
  return { limit, after: position };
}

/** Page tokens are opaque to clients: the last key of the page before, encoded. */
export function pageTokenOf(key: string | number | undefined): { nextPageToken?: string } {
  return key === undefined ? {} : { nextPageToken: Buffer.from(String(key)).toString('base64url') };
}

function readPageToken(token: string, pattern: RegExp): string {
  const key = Buffer.from(token, 'base64url').toString('utf8');
  // Decoding skips what it cannot read, so nonsense would silently be a token for some other place.
  if (!pattern.test(key) || pageTokenOf(key).nextPageToken !== token)
    throw new InvalidError('pageToken', token, 'one that this list answered');
  return key;
}
