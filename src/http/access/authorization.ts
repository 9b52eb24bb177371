/**
 * Authorization: may this principal do that? It is checked before anything in the request that costs more than its
 * headers: a caller without the right learns nothing else, and its request costs nothing.
 *
 *   route ──▶ authenticate ──▶ rate ──▶ **scope of the operation** ──▶ query and headers ──▶ body read
 *     ──▶ **names in the body** ──▶ body validated ──▶ handler
 *
 * The contract declares the need: `x-scope` for the operation (one scope, or a list of which one is enough; empty for
 * any credential), and `x-names` for where the body names what is acted on. A request that names no namespace works in
 * that of its lease, whose token only the handler opens. Until then it is enough that the principal may do this in some
 * namespace; the handler checks again, and so does the choice of one of several ensembles (`routes/choice.ts`).
 */
import { PosternError } from '../../errors.js';
import { DEFAULT_NAMESPACE } from '../../leases/layout.js';
import { headerOf, nameIn, type Call } from '../frame/call.js';
import type { Credential } from './credentials.js';
import type { Operation } from '../contract/openapi.js';
import type { Asked } from './permissions.js';

/** Kinds that are singular: there is one of each. */
const UNCOUNTED = new Set(['config', 'status', 'contention']);
/** More names than any body may have; the ones behind them are refused for their number. */
const NAMES_READ_MAX = 1_000;
/**
 * The longest name there is (a configuration key). A longer one has not been validated yet and is not echoed in full.
 */
export const NAME_SHOWN_MAX = 1_024;

/**
 * Checks the operation for what its path names.
 * @param settled the namespace, once it is known without being named
 * @throws PosternError `forbidden`
 */
export function authorizeOperation(call: Call, operation: Operation, credential: Credential, settled?: string): void {
  const { scopes, kind } = operation;
  if (scopes.length === 0) return;
  const namespace = settled ?? namespaceAsked(call, operation);
  const asked = { scopes, namespace, kind, name: nameIn(call.params) };
  if (isAllowed(credential, asked)) {
    call.needs.push(asked);
    return;
  }
  refuse(call, operation, asked);
}

/**
 * Checks the names in the body, which is parsed but not yet validated.
 * @param settled as above
 * @throws PosternError `forbidden`
 */
export function authorizeNames(
  call: Call,
  operation: Operation,
  credential: Credential,
  body: unknown,
  settled?: string,
): void {
  if (operation.names.length === 0) return;
  const namespace = settled ?? namespaceAsked(call, operation);
  for (const { steps, scopes } of operation.names) {
    for (const name of namesAt(body, steps)) {
      const asked = { scopes, namespace, kind: operation.kind, name };
      if (isAllowed(credential, asked)) call.needs.push(asked);
      else refuse(call, operation, asked);
    }
  }
}

/** With what the log says of it: what was to be administered is told although nothing of the request was read. */
function refuse(call: Call, { scopes, kind }: Operation, asked: Asked): never {
  call.namespace = asked.namespace;
  if (scopes.includes('admin')) call.administers = { kind, asked: {} };
  throw forbidden(asked);
}

export function isAllowed(credential: Credential, { scopes, kind, namespace, name }: Asked): boolean {
  return scopes.some((scope) => credential.allows(kind, scope, namespace, name));
}

export function forbidden({ scopes, kind, ...asked }: Asked): PosternError {
  const name = asked.name?.slice(0, NAME_SHOWN_MAX);
  const namespace = asked.namespace?.slice(0, NAME_SHOWN_MAX);
  const what = name === undefined ? (UNCOUNTED.has(kind) ? kind : `${kind}s`) : `the ${kind} "${name}"`;
  const where = namespace === undefined ? 'the namespace of the lease' : `the namespace "${namespace}"`;
  return new PosternError(
    'forbidden',
    `This needs the scope ${scopes.map((scope) => `"${scope}"`).join(' or ')} on ${what} in ${where}.`,
    {
      members: {
        scope: scopes[0],
        kind,
        ...(namespace === undefined ? {} : { namespace }),
        ...(name === undefined ? {} : { name }),
      },
    },
  );
}

function namespaceAsked({ request: { headers } }: Call, { takesLeaseTokens }: Operation): string | undefined {
  const named = headerOf(headers['namespace']);
  if (named !== undefined) return named;
  return takesLeaseTokens || headerOf(headers['lease-token']) !== undefined ? undefined : DEFAULT_NAMESPACE;
}

/** The texts at this place in a body; `*` stands for every item of a list. */
function namesAt(body: unknown, steps: readonly string[]): string[] {
  let values: unknown[] = [body];
  for (const step of steps) {
    values = values.flatMap((value) =>
      step === '*'
        ? Array.isArray(value)
          ? (value.slice(0, NAMES_READ_MAX) as unknown[])
          : []
        : memberOf(value, step),
    );
  }
  return values.filter((value) => typeof value === 'string');
}

function memberOf(value: unknown, name: string): unknown[] {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? [(value as Record<string, unknown>)[name]]
    : [];
}
