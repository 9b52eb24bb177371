/**
 * Who may do what, for every operation of the contract: the table is `openapi.yaml`, so that an operation that is new
 * there is covered here. The scope that an operation needs is the one that its description names; everything else is
 * refused, with nothing done.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApi, type Operation, type Parameter } from '../../../src/http/contract/openapi.js';
import { KINDS, type Namespaces } from '../../../src/http/access/permissions.js';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import { Client, type CallOptions, type LeaseHandle, type Reply } from '../../support/http/client.js';
import { startPair, type Pair } from '../../support/start-gateway.js';

type Scope = 'read' | 'use' | 'admin';
const SCOPES: readonly Scope[] = ['read', 'use', 'admin'];
const MAX_BODY_BYTES = 4_096;
/** Longer than all tests of this file: most requests are refused, and keep no lease alive. */
const LONG_TTL_MS = 300_000;

const guarded = openApi().operations.filter(({ isPublic }) => !isPublic);
const named = (operations: readonly Operation[]): [string, Operation][] =>
  operations.map((operation) => [operation.operationId, operation]);
const takesToken = (operation: Operation): boolean => operation.parameters.some(({ name }) => name === 'Lease-Token');

const isRequiredToken = ({ name, required }: Parameter): boolean => name === 'Lease-Token' && required === true;

/** Takes its tokens in the body. */
const MANY_TOKENS = 'heartbeatLeases';
/** Needs one of two scopes: which of them depends on what it is asked for. */
const EITHER_SCOPE = 'abortTransaction';

let keys: ApiKeys;
let pair: Pair;
let stranger: Client;
const clients = new Map<string, KeyedClient>();
/** Of the principal `me`, whose keys differ in what they may do. */
let lease: LeaseHandle;
let leaseOfAnother: LeaseHandle;

beforeAll(async () => {
  const permissions: Record<string, Namespaces> = {
    everything: '*',
    another: '*',
    ...Object.fromEntries(SCOPES.map((scope) => [`only-${scope}`, { default: [scope] }])),
    elsewhere: { elsewhere: [...SCOPES] },
    ...Object.fromEntries(
      SCOPES.map((scope) => [`all-but-${scope}`, { default: SCOPES.filter((one) => one !== scope) }]),
    ),
    // All scopes on everything but what is asked for, kind by kind.
    ...Object.fromEntries(
      [...new Set(guarded.map(({ kind }) => kind))].map((kind) => [
        `all-but-${kind}s`,
        { default: { '*': [...SCOPES], [kind]: [] } },
      ]),
    ),
  };
  keys = await makeApiKeys(permissions, (id) => (id === 'another' ? id : 'me'));
  pair = await startPair({
    settings: {
      POSTERN_AUTH_FILE: keys.file,
      POSTERN_MAX_BODY_BYTES: String(MAX_BODY_BYTES),
      POSTERN_MAX_WAIT_MS: '200',
    },
  });
  stranger = new Client(pair.a.url);
  lease = await newLease('everything');
  leaseOfAnother = await newLease('another');
});
afterAll(async () => {
  await Promise.all([as('everything').endLease(lease), as('another').endLease(leaseOfAnother)]);
  await Promise.all([...clients.values(), stranger].map((client) => client[Symbol.asyncDispose]()));
  await pair[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

/** They need no lease. */
const OF_RESERVATIONS = [
  ...['listReservations', 'reserveLock', 'extendReservation', 'releaseReservation', 'preReboot', 'steadyState'],
  ...[
    'readTerraformState',
    'writeTerraformState',
    'deleteTerraformState',
    'lockTerraformState',
    'unlockTerraformState',
  ],
];
/** Headers without which nothing is looked at; a lease token is one of its own. */
const headersOf = ({ parameters }: Operation): Record<string, string> =>
  Object.fromEntries(
    parameters
      .filter((parameter) => parameter.in === 'header' && parameter.required === true && !isRequiredToken(parameter))
      .map(({ name, example }) => [name, String(example)]),
  );

function as(key: string): KeyedClient {
  let client = clients.get(key);
  if (client === undefined) clients.set(key, (client = keys.as(key, pair.b.url)));
  return client;
}

function newLease(key: string): Promise<LeaseHandle> {
  return as(key).createLease({ ttlMs: LONG_TTL_MS });
}

/** Calls with what the contract gives as an example, but without waiting. */
function call(client: Client, operation: Operation, options: CallOptions & { by?: LeaseHandle } = {}): Promise<Reply> {
  const path = operation.template.replace('{id}', '0'.repeat(32)).replace(/\{\w+\}/g, 'matrix');
  const query = operation.parameters
    .filter(({ in: place, required, name }) => place === 'query' && (required === true || name === 'maxMs'))
    .map(({ name }) => `${name}=${name === 'watch' ? 'lock:matrix' : '1'}`)
    .join('&');
  const { by = lease, headers, ...rest } = options;
  const body = operation.operationId === MANY_TOKENS ? { leaseTokens: [by.leaseToken] } : exampleOf(operation);
  return client.call(operation.method, query === '' ? path : `${path}?${query}`, {
    ...(body === undefined ? {} : { body }),
    ...(takesToken(operation) ? { leaseToken: by.leaseToken } : {}),
    ...rest,
    headers: { ...headersOf(operation), ...headers },
  });
}

function exampleOf({ source, body }: Operation): unknown {
  if (body !== 'json') return body === 'raw' ? 'some bytes' : undefined;
  const { example, examples } = source.requestBody?.content['application/json'] ?? {};
  const value = (example ?? Object.values(examples ?? {})[0]?.value ?? {}) as Record<string, unknown>;
  return 'waitMs' in value ? { ...value, waitMs: 0 } : value;
}

/** As the description says it. */
function scopeOf({ source }: Operation): Scope | undefined {
  return /Scope:\s+`(read|use|admin)`/.exec(source.description ?? '')?.[1] as Scope | undefined;
}

describe('every operation that is not public', () => {
  it.each(named(guarded))('%s is 401 without a credential, and with one that nobody gave out', async (_, operation) => {
    for (const headers of [{}, { authorization: 'Bearer wrong' }]) {
      const reply = await call(stranger, operation, { headers });
      expect(reply.status).toBe(401);
      expect(reply.body).toMatchObject({ code: 'unauthenticated', outcome: 'not-applied' });
      expect(reply.headers['www-authenticate']).toBe('Bearer realm="postern"');
    }
  });

  it('is of a kind that the file of API keys knows, and the file knows no other', () => {
    expect([...KINDS].sort()).toEqual([...new Set(guarded.map(({ kind }) => kind))].sort());
  });

  it('names its scope in its description', () => {
    const without = guarded.filter((operation) => scopeOf(operation) === undefined);
    expect(without.map(({ operationId }) => operationId)).toEqual([]);
  });
});

const scoped = guarded.filter((operation) => scopeOf(operation) !== undefined);

function expectForbidden(answer: Reply, operation: Operation): void {
  // In a batch every item is an answer of its own.
  const [reply] = operation.operationId === MANY_TOKENS && answer.status === 200 ? itemsOf(answer) : [answer];
  expect(reply?.status, JSON.stringify(answer.body)).toBe(403);
  expect(reply?.body).toMatchObject({ code: 'forbidden', outcome: 'not-applied', kind: operation.kind });
  if (operation.operationId !== EITHER_SCOPE) expect(reply?.body).toMatchObject({ scope: scopeOf(operation) });
}

function itemsOf({ body }: Reply): { status: number; body: unknown }[] {
  return (body as { items: { status: number }[] }).items.map((item) => ({ status: item.status, body: item }));
}

describe('every operation with a scope', () => {
  it.each(named(scoped))(
    '%s is 403 with all other scopes, and with all scopes on all other kinds',
    async (_, operation) => {
      const without = operation.operationId === EITHER_SCOPE ? 'only-read' : `all-but-${scopeOf(operation)}`;
      for (const key of [without, `all-but-${operation.kind}s`])
        expectForbidden(await call(as(key), operation), operation);
    },
  );

  it.each(named(scoped))('%s is 403 in another namespace', async (_, operation) => {
    expectForbidden(await call(as('elsewhere'), operation, { headers: { namespace: 'default' } }), operation);
  });

  it.each(named(scoped))('%s is let in with its scope and no other', async (_, operation) => {
    const reply = await call(as(`only-${scopeOf(operation)}`), operation);
    expect(reply.status).not.toBe(401);
    // A token that opens nothing is 403 too.
    if (reply.status === 403) expect(reply.body).toMatchObject({ code: 'invalid-reservation-token' });
    expect(reply.status).toBeLessThan(500);
    if (operation.operationId === 'endLease') lease = await newLease('everything');
  });
});

describe('every operation of a lease', () => {
  const ofLease = guarded.filter((operation) => takesToken(operation) || operation.operationId === MANY_TOKENS);

  it.each(named(ofLease))(
    '%s is 403 with the token of another principal, whatever the scopes',
    async (_, operation) => {
      const answer = await call(as('everything'), operation, { by: leaseOfAnother });
      const [reply] = operation.operationId === MANY_TOKENS ? itemsOf(answer) : [answer];
      expect(reply?.status, JSON.stringify(answer.body)).toBe(403);
      expect(reply?.body).toMatchObject({ code: 'invalid-lease-token', outcome: 'not-applied' });
    },
  );

  // A reader may name another namespace and bring a lease only to keep it alive.
  const forLease = ofLease.filter(({ method, parameters }) => method !== 'GET' || parameters.some(isRequiredToken));

  it.each(named(forLease))('%s is 403 with a token of another namespace', async (_, operation) => {
    const answer = await call(as('everything'), operation, { headers: { namespace: 'elsewhere' } });
    const [reply] = operation.operationId === MANY_TOKENS ? itemsOf(answer) : [answer];
    expect(reply?.status, JSON.stringify(answer.body)).toBe(403);
    expect(reply?.body).toMatchObject({ code: 'invalid-lease-token', outcome: 'not-applied' });
  });

  it('has left the other lease alone', async () => {
    expect((await as('another').heartbeat(leaseOfAnother)).status).toBe(200);
  });
});

describe('every operation that a lease has to do with', () => {
  const alone = new Set(['createLease', 'status', 'showContention', 'watchMany', MANY_TOKENS, ...OF_RESERVATIONS]);
  const inNamespace = guarded.filter(({ operationId }) => !alone.has(operationId));

  const client = (): KeyedClient => as('elsewhere');
  let there: LeaseHandle | undefined;

  it.each(named(inNamespace))('%s works in the namespace of the lease whose token it brings', async (_, operation) => {
    const options = { body: { ttlMs: LONG_TTL_MS }, headers: { namespace: 'elsewhere' } };
    there ??= (await client().expect(201, 'POST', '/v1/leases', options)) as LeaseHandle;
    const reply = await call(client(), operation, { by: there, leaseToken: there.leaseToken });
    expect(reply.status, JSON.stringify(reply.body)).not.toBe(403);
    if (operation.operationId === 'endLease') there = undefined;
  });
});

describe('every operation with a body', () => {
  const withBody = guarded.filter(({ body }) => body !== undefined);

  it.each(named(withBody))('%s is 413 with one that is too large', async (_, operation) => {
    const reply = await call(as('everything'), operation, { body: ' '.repeat(MAX_BODY_BYTES + 1) });
    expect(reply.status).toBe(413);
    expect(reply.body).toMatchObject({ code: 'too-large', maxBytes: MAX_BODY_BYTES, outcome: 'not-applied' });
  });
});
