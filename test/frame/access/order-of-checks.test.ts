/**
 * Who may not do a thing is told so before anything that he sent is looked at, whatever the operation: the table is
 * `openapi.yaml`. The handlers of these replicas fail, so that one that is reached is seen.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openApi, type Operation } from '../../../src/http/contract/openapi.js';
import { makeApiKeys, type ApiKeys, type KeyedClient } from '../../support/http/api-keys.js';
import { cpuMsOf } from '../../support/usage.js';
import { startFrame, type Frame } from '../harness.js';

const QUICK_CPU_MS = 100;
/** Not JSON to its end, and as much as the replica reads. */
const DEAR_BODY = Buffer.from(`{"names":["${'='.repeat(500_000)}",${'"a",'.repeat(100_000)}`);

const scoped = openApi().operations.filter(({ scopes }) => scopes.length > 0);
const named = (operations: readonly Operation[]): [string, Operation][] =>
  operations.map((operation) => [operation.operationId, operation]);

let keys: ApiKeys;
let frame: Frame;
let nobody: KeyedClient;
let mine: KeyedClient;

beforeAll(async () => {
  keys = await makeApiKeys({
    nobody: {},
    mine: { default: { '*': { scopes: ['read', 'use', 'admin'], names: ['mine'] } } },
  });
  frame = await startFrame({ config: { authFile: keys.file } });
  nobody = keys.as('nobody', frame.url);
  mine = keys.as('mine', frame.url);
});
afterAll(async () => {
  await Promise.all([nobody, mine].map((client) => client[Symbol.asyncDispose]()));
  await frame[Symbol.asyncDispose]();
  await keys[Symbol.asyncDispose]();
});

function pathOf({ template }: Operation, name: string): string {
  return template.replace(/\{\w+\}/g, name);
}

describe('with a key that has no right', () => {
  it.each(named(scoped))(
    '%s is 403, whatever else is wrong with the request, and costs nothing',
    async (_, operation) => {
      const { method, kind, scopes } = operation;
      for (const headers of [
        {},
        { namespace: 'elsewhere' },
        { namespace: 'not a name' },
        { 'lease-token': 'v1.none' },
      ]) {
        const ask = () =>
          nobody.call(method, `${pathOf(operation, 'not%20a%20name')}?waitMs=x&waitMs=y`, {
            headers: { accept: 'image/png', ...headers },
            ...(operation.body === undefined ? {} : { body: DEAR_BODY }),
          });
        let reply = await ask();
        expect(reply.status, JSON.stringify(reply.body)).toBe(403);
        expect(reply.body).toMatchObject({ code: 'forbidden', kind, scope: scopes[0], outcome: 'not-applied' });
        expect(await cpuMsOf(async () => (reply = await ask()), QUICK_CPU_MS)).toBeLessThan(QUICK_CPU_MS);
      }
    },
  );
});

describe('with a key for some names', () => {
  const naming = scoped.filter(({ names }) => names.length > 0);

  it.each(named(naming))(
    '%s is 403 for another one in its body, whatever else is wrong with that',
    async (_, operation) => {
      for (const { steps } of operation.names) {
        const ask = (name: string) =>
          mine.call(operation.method, pathOf(operation, 'mine'), {
            body: { ...placed(steps, name), nonsense: '='.repeat(1_000) },
            headers: { namespace: 'default', 'lease-token': 'v1.none' },
          });
        const reply = await ask('theirs');
        expect(reply.status, JSON.stringify(reply.body)).toBe(403);
        expect(reply.body).toMatchObject({ code: 'forbidden', kind: operation.kind, name: 'theirs' });
        expect((await ask('mine')).status).toBe(422);
      }
    },
  );

  it('leaves no operation out whose body names things', () => {
    expect(naming.map(({ operationId }) => operationId).sort()).toEqual([
      'acquireLocks',
      'claimFromQueues',
      'configureQueue',
      'createTransaction',
      'joinTransaction',
      'readConfig',
      'redriveQueue',
      'voteInTransaction',
      'writeConfig',
    ]);
  });
});

function placed([step, ...rest]: readonly string[], name: string): Record<string, unknown> {
  if (step === undefined) throw new Error('a name stands in a member');
  if (rest.length === 0) return { [step]: name };
  const [, ...behind] = rest;
  return { [step]: ['mine', name].map((one) => (behind.length === 0 ? one : placed(behind, one))) };
}

it('reads no more of a body than any that means something has, where the contract says how much that is', async () => {
  const unbounded = openApi().operations.filter(
    ({ body, maxBodyBytes }) => body !== undefined && maxBodyBytes === Infinity,
  );
  expect(unbounded.map(({ operationId }) => operationId).sort()).toEqual([
    'heartbeatLeases',
    'pushMessages',
    'pushRawMessage',
    'putConfig',
    'putPool',
    'restoreMessages',
    'writeConfig',
    'writeTerraformState',
  ]);
  const bounded = openApi().operations.filter(({ maxBodyBytes }) => Number.isFinite(maxBodyBytes));
  for (const operation of bounded) {
    const reply = await mine.call(operation.method, pathOf(operation, 'mine'), {
      body: ' '.repeat(operation.maxBodyBytes + 1),
      headers: { 'lease-token': 'v1.none', 'fleet-lock-protocol': 'true' },
    });
    expect([operation.operationId, reply.status]).toEqual([operation.operationId, 413]);
    expect(reply.body).toMatchObject({ code: 'too-large', maxBytes: operation.maxBodyBytes });
  }
});
