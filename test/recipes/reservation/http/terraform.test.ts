/** Terraform's backend `http` as Terraform speaks to it, over two replicas (ADR 31). The real one: `test/interop`. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { startPair } from '../../../support/start-gateway.js';
import { CLOCK_MS, isFree, reservationOf } from '../client.js';

const INFO = { Operation: 'OperationTypeApply', Info: '', Who: 'ann@laptop', Version: '1.5.7', Path: '' };
const VALUE_BYTES_MAX = 960 * 1024;
const LOCK_MS = 120_000;

interface Run {
  ID: string;
}

function lock(client: Client, run: Run, state = 'prod'): Promise<Reply> {
  const Created = '2026-01-31T16:00:00.123456789Z';
  return client.call('POST', `/v1/terraform/${state}/lock`, { body: { ...INFO, ...run, Created } });
}

function unlock(client: Client, run: Run | undefined, state = 'prod'): Promise<Reply> {
  return client.call('POST', `/v1/terraform/${state}/unlock`, run === undefined ? {} : { body: { ...INFO, ...run } });
}

function write(client: Client, value: string, run?: Run, state = 'prod'): Promise<Reply> {
  const query = run === undefined ? '' : `?ID=${run.ID}`;
  const headers = { 'content-type': 'application/json' };
  return client.call('POST', `/v1/terraform/${state}${query}`, { body: value, headers });
}

async function read(client: Client, state = 'prod'): Promise<unknown> {
  return (await client.call('GET', `/v1/terraform/${state}`)).body;
}

const newRun = (): Run => ({ ID: randomUUID() });

describe('the lock of a state', () => {
  test('has one holder, who is told to others, and is unlocked under its ID through any replica', async () => {
    await using pair = await startPair({ settings: { POSTERN_TERRAFORM_LOCK_MS: String(LOCK_MS) } });
    const [mine, theirs] = [newRun(), newRun()];
    const before = Date.now();
    const locked = await lock(pair.a, mine);
    expect([locked.status, locked.body]).toEqual([200, undefined]);
    const until = Date.parse((await reservationOf(pair.b, 'terraform.prod'))?.reservation?.until ?? '');
    expect(until).toBeGreaterThanOrEqual(before + LOCK_MS - CLOCK_MS);
    expect(until).toBeLessThanOrEqual(Date.now() + LOCK_MS + CLOCK_MS);
    expect((await lock(pair.b, mine)).status).toBe(200);
    expect(await reservationOf(pair.a, 'terraform.prod')).toMatchObject({
      reservation: { owner: 'ann@laptop', reason: 'Terraform OperationTypeApply' },
    });
    const held = {
      status: 409,
      body: { code: 'lock-held', ...INFO, ...mine, Created: '2026-01-31T16:00:00.123456789Z' },
    };
    expect(await lock(pair.b, theirs)).toMatchObject(held);
    expect(await unlock(pair.b, theirs)).toMatchObject(held);
    expect((await lock(pair.b, theirs, 'test')).status).toBe(200);
    expect((await unlock(pair.b, mine)).status).toBe(200);
    expect((await unlock(pair.a, mine)).status).toBe(200);
    expect(await isFree(pair.a, 'terraform.prod')).toBe(true);
    expect((await lock(pair.a, theirs)).status).toBe(200);
  });

  test('is forced open without an ID by its principal, and by nobody else', async () => {
    const scopes = { default: ['read', 'use'] } as const;
    await using keys = await makeApiKeys({ ann: { ...scopes }, bob: { ...scopes } } as never);
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using ann = keys.as('ann', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const run = newRun();
    await lock(ann, run);
    for (const one of [undefined, run])
      expect(await unlock(bob, one)).toMatchObject({ status: 409, body: { code: 'lock-held', ...run } });
    expect((await unlock(ann, undefined)).status).toBe(200);
    expect(await isFree(ann, 'terraform.prod')).toBe(true);
  });

  test('may be somebody’s who is not Terraform', async () => {
    await using pair = await startPair();
    await pair.a.hold('terraform.prod', await pair.a.createLease({ label: 'freeze' }));
    const held = { status: 409, body: { code: 'lock-held', Who: 'freeze' } };
    expect(await lock(pair.b, newRun())).toMatchObject(held);
    expect(await unlock(pair.b, undefined)).toMatchObject(held);
    expect(await write(pair.b, '{}')).toMatchObject(held);
  });
});

describe('a state', () => {
  test('is read as it was written, and is gone when it is deleted', async () => {
    await using pair = await startPair();
    expect((await pair.a.call('GET', '/v1/terraform/prod')).status).toBe(404);
    expect((await pair.b.call('DELETE', '/v1/terraform/prod')).status).toBe(200);
    expect((await write(pair.a, '{"serial": 1}')).status).toBe(200);
    expect(await read(pair.b)).toEqual({ serial: 1 });
    expect((await pair.b.call('GET', '/v1/config/terraform/prod')).body).toEqual({ serial: 1 });
    expect((await pair.b.call('DELETE', '/v1/terraform/prod')).status).toBe(200);
    expect((await pair.a.call('GET', '/v1/terraform/prod')).status).toBe(404);
  });

  test('is written by the run that has the lock, and by nobody else', async () => {
    await using pair = await startPair();
    const [mine, theirs] = [newRun(), newRun()];
    await lock(pair.a, mine);
    expect((await write(pair.b, '{"serial": 1}', mine)).status).toBe(200);
    const held = { status: 409, body: { code: 'lock-held', outcome: 'not-applied', ...mine } };
    expect(await write(pair.b, '{"serial": 2}', theirs)).toMatchObject(held);
    expect(await write(pair.b, '{"serial": 2}')).toMatchObject(held);
    expect(await pair.b.call('DELETE', '/v1/terraform/prod')).toMatchObject(held);
    await unlock(pair.b, mine);
    expect(await write(pair.a, '{"serial": 2}', mine)).toMatchObject({
      status: 409,
      body: { code: 'not-holder', outcome: 'not-applied' },
    });
    expect(await read(pair.a)).toEqual({ serial: 1 });
    expect((await write(pair.a, '{"serial": 2}')).status).toBe(200);
  });

  test('has a largest size, which is named', async () => {
    await using pair = await startPair();
    expect((await write(pair.a, ' '.repeat(VALUE_BYTES_MAX - 2) + '{}')).status).toBe(200);
    expect(await write(pair.a, ' '.repeat(VALUE_BYTES_MAX - 1) + '{}')).toMatchObject({
      status: 413,
      body: { code: 'too-large', maxBytes: VALUE_BYTES_MAX, key: 'terraform/prod', outcome: 'not-applied' },
    });
  });
});

test('what is not allowed or breaks a rule is refused by name', async () => {
  await using keys = await makeApiKeys({
    all: { default: ['read', 'use'] },
    one: {
      default: {
        lock: { scopes: ['use'], names: ['terraform.prod'] },
        config: { scopes: ['read'], names: ['terraform/prod'] },
      },
    },
  });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using all = keys.as('all', pair.a.url);
  await using one = keys.as('one', pair.b.url);
  const run = newRun();
  expect((await lock(one, run)).status).toBe(200);
  expect(await lock(one, run, 'test')).toMatchObject({ status: 403, body: { kind: 'lock', name: 'terraform.test' } });
  expect(await unlock(one, run, 'test')).toMatchObject({ status: 403, body: { kind: 'lock' } });
  expect((await one.call('GET', '/v1/terraform/prod')).status).toBe(404);
  expect(await one.call('GET', '/v1/terraform/test')).toMatchObject({
    status: 403,
    body: { kind: 'config', scope: 'read', name: 'terraform/test' },
  });
  expect(await write(one, '{}', run)).toMatchObject({ status: 403, body: { kind: 'config', scope: 'use' } });
  expect(await one.call('DELETE', '/v1/terraform/prod')).toMatchObject({ status: 403, body: { scope: 'use' } });
  const bad: [Record<string, unknown>, string][] = [
    [{}, 'ID'],
    [{ ID: 'a b' }, 'ID'],
    [{ ID: 'x'.repeat(65) }, 'ID'],
    [{ ...run, Who: 'x'.repeat(201) }, 'Who'],
    [{ ...run, Info: 'x'.repeat(401) }, 'Info'],
    [{ ...run, Operation: 7 }, 'Operation'],
  ];
  for (const [body, field] of bad)
    expect((await all.call('POST', '/v1/terraform/other/lock', { body })).body).toMatchObject({
      code: 'invalid',
      field,
    });
  for (const path of ['/v1/terraform/a+b/lock', `/v1/terraform/${'x'.repeat(191)}/lock`])
    expect((await all.call('POST', path, { body: run })).body).toMatchObject({ code: 'invalid', field: 'state' });
  expect((await write(all, '{}', { ID: 'a%20b' })).body).toMatchObject({ code: 'invalid', field: 'ID' });
  expect(await isFree(all, 'terraform.other')).toBe(true);
});

test('who has the lock is told to those only who may use the lock or read it', async () => {
  const config = { scopes: ['use' as const], names: ['terraform/*'] };
  await using keys = await makeApiKeys({
    holder: { default: ['use'] },
    blind: { default: { config, lock: { scopes: ['read', 'use'], names: ['other'] } } },
    reader: { default: { config, lock: ['read'] } },
  });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using holder = keys.as('holder', pair.a.url);
  await using blind = keys.as('blind', pair.b.url);
  await using reader = keys.as('reader', pair.b.url);
  const run = newRun();
  await lock(holder, run);
  const held = { status: 409, body: { code: 'lock-held', outcome: 'not-applied' } };
  for (const query of ['', `?ID=${run.ID}`]) {
    expect(await reader.call('DELETE', `/v1/terraform/prod${query}`)).toMatchObject({
      body: { ...run, Who: INFO.Who },
    });
    const refused = await blind.call('DELETE', `/v1/terraform/prod${query}`);
    expect(refused).toMatchObject(held);
    expect(JSON.stringify(refused.body)).not.toMatch(new RegExp(`${run.ID}|${INFO.Who}|Created`));
  }
});
