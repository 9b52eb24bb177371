/** The first lines of every handler: who asks, for which namespace, with which lease. */
import { InvalidError, PosternError } from '../../../errors.js';
import { DEFAULT_NAMESPACE } from '../../../leases/layout.js';
import type { Lease } from '../../../leases/lease.js';
import type { Leases } from '../../../leases/leases.js';
import { type Page } from '../../../page.js';
import type { Exchange, Scope } from '../../frame/exchange.js';

const PAGE_KEY = /^[A-Za-z0-9._~-]{1,200}$/;

/**
 * The namespace of a request, once the caller's right to do this there is checked: the one that it names, else that of
 * the lease whose token it carries, needed or not, else `default`.
 */
export async function namespaceOf(exchange: Exchange, leases: Leases, scope: Scope = 'read'): Promise<string> {
  if (exchange.namespace !== undefined || exchange.leaseToken === undefined) return namedNamespaceOf(exchange, scope);
  return (await leaseOf(exchange, leases, scope)).namespace;
}

/** As `namespaceOf`, for operations that do not involve a lease: creating one, or asking a replica about itself. */
export function namedNamespaceOf(exchange: Exchange, scope: Scope): string {
  const namespace = exchange.namespace ?? DEFAULT_NAMESPACE;
  exchange.authorize(scope, namespace);
  return namespace;
}

/** The request's lease, opened, once the caller's right to do this in its namespace is checked. */
export async function leaseOf(exchange: Exchange, leases: Leases, scope: Scope = 'use'): Promise<Lease> {
  const token = leaseTokenOf(exchange);
  const caller = { principal: exchange.principal.id, namespace: exchange.namespace };
  const { lease } = leases.openKnown(token, caller) ?? (await leases.open(token, caller, exchange.deadline));
  exchange.authorize(scope, lease.namespace);
  return lease;
}

/** The request's lease token, unopened. Where it is always needed, its absence was refused before. */
export function leaseTokenOf({ leaseToken }: Exchange): string {
  if (leaseToken !== undefined) return leaseToken;
  throw new PosternError(
    'lease-token-required',
    'This request needs the header Lease-Token, the leaseToken that POST /v1/leases answered; or lease in its body, to make a lease in the same request.',
  );
}

/** The body's `requestId`, else the Idempotency-Key, else none. */
export function requestIdOf(exchange: Exchange, body: { requestId?: string | undefined }): string {
  const { idempotencyKey } = exchange;
  if (body.requestId !== undefined && idempotencyKey !== undefined && body.requestId !== idempotencyKey) {
    const rule = 'the same as requestId in the body, or left out: both say what tells this request from others';
    throw new InvalidError('Idempotency-Key', idempotencyKey, rule, { in: 'header' });
  }
  return body.requestId ?? idempotencyKey ?? '';
}

/** The length of 128 random bits in base64url. */
const TOKEN_REQUEST_ID_MIN = 22;

/**
 * As `requestIdOf`, for a request answered with a lease token. A repetition under the same principal gets the same
 * token, so nobody else must be able to make up the id.
 */
export function tokenRequestIdOf(exchange: Exchange, body: { requestId?: string | undefined }): string {
  const requestId = requestIdOf(exchange, body);
  if (requestId !== '' && requestId.length < TOKEN_REQUEST_ID_MIN)
    throw new InvalidError(
      body.requestId === undefined ? 'Idempotency-Key' : 'requestId',
      requestId,
      `random, and at least ${TOKEN_REQUEST_ID_MIN} characters (such as a UUID): whoever sends the same one is handed the same lease token`,
      { in: body.requestId === undefined ? 'header' : 'body', minLength: TOKEN_REQUEST_ID_MIN },
    );
  return requestId;
}

/**
 * The page asked for by a request for a list inside one thing.
 * @param pattern of the keys that its tokens encode
 */
export function pageOf(exchange: Pick<Exchange, 'query'>, pattern = PAGE_KEY): Page {
  const { limit, pageToken, prefix } = exchange.query as { limit?: number; pageToken?: string; prefix?: string };
  return {
    limit: limit ?? 100,
    after: pageToken === undefined ? undefined : readPageToken(pageToken, pattern),
    prefix: prefix ?? '',
    shows: () => true,
  };
}

/** The page asked for by a request for a list of names; it shows the names for which the caller has the scope. */
export function pageOfAllowed(exchange: Exchange, namespace: string, scope: Scope = 'read', pattern = PAGE_KEY): Page {
  return { ...pageOf(exchange, pattern), shows: (name) => exchange.allows(scope, namespace, { name }) };
}

/** Page tokens are opaque to clients: the last key of the previous page, encoded. */
export function pageTokenOf(key: string | undefined): { nextPageToken?: string } {
  return key === undefined ? {} : { nextPageToken: Buffer.from(key).toString('base64url') };
}

function readPageToken(token: string, pattern: RegExp): string {
  const key = Buffer.from(token, 'base64url').toString('utf8');
  // Decoding skips what it cannot read, so nonsense would silently be a token for another position.
  if (!pattern.test(key) || pageTokenOf(key).nextPageToken !== token)
    throw new InvalidError('pageToken', token, 'one that this list answered', { in: 'query' });
  return key;
}
