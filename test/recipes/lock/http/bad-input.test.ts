/** Bodies and headers outside the rules: the right problem, and nothing is done. */
import { describe, expect, it } from 'vitest';
import { rawRequest } from '../../../support/http/raw-request.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';

const ACQUIRE = '/v1/locks/bad/acquire';

function expectInvalid({ status, body }: Reply, field: string, what: unknown): void {
  const shown = JSON.stringify(what).slice(0, 100);
  expect(status, shown).toBe(422);
  expect(body, shown).toMatchObject({
    type: '/problems/invalid',
    code: 'invalid',
    retryable: false,
    outcome: 'not-applied',
  });
  expect((body.field as string).toLowerCase(), shown).toBe(field.toLowerCase());
  expect((body.detail as string).toLowerCase(), shown).toContain(field.toLowerCase());
}

async function expectNothingDone(replica: Replica, lease: LeaseHandle): Promise<void> {
  expect((await replica.expect(200, 'GET', '/v1/locks')).items).toEqual([]);
  expect((await replica.expect(200, 'GET', '/v1/leases')).items).toHaveLength(1);
  expect((await replica.showLease(lease)).body.holds).toEqual([]);
}

describe('acquire refuses', () => {
  it('values outside their rules, naming the member', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_WAIT_MS: '5000' } });
    const lease = await replica.createLease({ ttlMs: 20_000 });
    for (const [body, field] of [
      ...[-1, 0.5, 5_001, 1e300, '5', null, true, [1]].map((waitMs) => [{ waitMs }, 'waitMs'] as const),
      ...['', 'r'.repeat(65), 'a b', 'a/b', 'é', 7, null, {}].map((requestId) => [{ requestId }, 'requestId'] as const),
      ...['true', 1, null].map((keepPlace) => [{ keepPlace }, 'keepPlace'] as const),
      [{ data: 'x'.repeat(4_095) }, 'data'],
      [{ data: 'é'.repeat(2_048) }, 'data'],
      [{ waitMS: 5 }, 'waitMS'],
      [{ waitMs: 0, ttlMs: 5 }, 'ttlMs'],
      [{ holdId: 'x' }, 'holdId'],
      [{ lease: 'x' }, 'lease'],
    ] as const) {
      expectInvalid(await replica.acquire('bad', lease, body), field, body);
    }
    await expectNothingDone(replica, lease);
    expect(
      (
        await replica.acquire('good', lease, {
          waitMs: 5_000,
          requestId: 'r'.repeat(64),
          keepPlace: true,
          data: 'x'.repeat(4_094),
        })
      ).status,
    ).toBe(200);
  });

  it('a waitMs beyond 55 seconds unless the replica is set otherwise, and says what it allows', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const reply = await replica.acquire('bad', lease, { waitMs: 55_001 });
    expectInvalid(reply, 'waitMs', 55_001);
    expect(reply.body.detail).toContain('55000');
    expect((await replica.acquire('good', lease, { waitMs: 55_000 })).status).toBe(200);
  });

  it('an Idempotency-Key that is no requestId', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    for (const key of ['a b', 'k'.repeat(65), 'a/b']) {
      expectInvalid(
        await replica.acquire('bad', lease, {}, { headers: { 'idempotency-key': key } }),
        'Idempotency-Key',
        key,
      );
    }
    await expectNothingDone(replica, lease);
  });

  it('a body that is no JSON object', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const send = (body: string, type = 'application/json'): Promise<Reply> =>
      rawRequest(replica.url, 'POST', ACQUIRE, {
        body,
        headers: { 'lease-token': lease.leaseToken, 'content-type': type },
      });
    for (const body of ['{', '{"waitMs": }', 'waitMs=5', '{"waitMs": 5}}', "{'waitMs': 5}", '\u0000']) {
      expect((await send(body)).body, body).toMatchObject({ status: 400, code: 'malformed', outcome: 'not-applied' });
    }
    for (const body of ['[]', '"text"', '7', 'null', 'true']) expect((await send(body)).status, body).toBe(422);
    expect((await send('{}', 'text/plain')).body).toMatchObject({ status: 415, code: 'unsupported-media-type' });
    expect((await send('{}', 'application/xml')).status).toBe(415);
    const large = await send(JSON.stringify({ data: 'x'.repeat(32_768) }));
    expect(large.body).toMatchObject({ status: 413, code: 'too-large', maxBytes: 32_768 });
    await expectNothingDone(replica, lease);
  });

  it('a request of a web page, whichever the type of its body', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    for (const type of ['application/json', 'application/x-www-form-urlencoded', 'text/plain']) {
      const headers = { 'lease-token': lease.leaseToken, 'content-type': type, origin: 'https://evil.example' };
      expect((await rawRequest(replica.url, 'POST', ACQUIRE, { body: '{}', headers })).body).toMatchObject({
        status: 403,
        code: 'forbidden',
      });
    }
    await expectNothingDone(replica, lease);
  });
});

describe('what plain curl sends', () => {
  it('is read as JSON: the type of forms, no type at all, and no body', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const token = { 'lease-token': lease.leaseToken };
    const form = { ...token, 'content-type': 'application/x-www-form-urlencoded' };
    expect(
      (await rawRequest(replica.url, 'POST', '/v1/locks/form/acquire', { body: '{"requestId": "r"}', headers: form }))
        .body,
    ).toMatchObject({ held: true, requestId: 'r' });
    expect(
      (
        await rawRequest(replica.url, 'POST', '/v1/locks/untyped/acquire', {
          body: '{"requestId": "r"}',
          headers: token,
        })
      ).body,
    ).toMatchObject({ held: true, requestId: 'r' });
    expect((await rawRequest(replica.url, 'POST', '/v1/locks/empty/acquire', { headers: token })).body).toMatchObject({
      held: true,
      requestId: '',
    });
    expect(
      (
        await rawRequest(replica.url, 'POST', '/v1/leases', {
          body: '{"ttlMs": 5000}',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        })
      ).body,
    ).toMatchObject({ ttlMs: 5_000 });
  });
});

describe('release refuses', () => {
  it('values outside their rules, and what is held stays held', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const { holdId } = await replica.hold('held', lease);
    for (const [body, field] of [
      ...['', 'h'.repeat(1_025), 7, null].map((bad) => [{ holdId: bad }, 'holdId'] as const),
      ...['', 'r'.repeat(65), 7, null].map((requestId) => [{ requestId }, 'requestId'] as const),
      [{ holdId, force: true }, 'force'],
      [{ waitMs: 0 }, 'waitMs'],
    ] as const) {
      expectInvalid(await replica.release('held', lease, body), field, body);
    }
    const cut = [holdId.slice(0, -1), `${holdId}A`, holdId.slice(1), holdId.toUpperCase(), `h1.${holdId}`, '../held'];
    for (const bad of cut) {
      expect((await replica.release('held', lease, { holdId: bad })).body, bad).toMatchObject({
        status: 409,
        code: 'not-holder',
      });
    }
    expect(await replica.showLock('held')).toMatchObject({ holders: [{ holdId }] });
  });
});

describe('a lease is not made from', () => {
  it('values outside their rules', async () => {
    await using replica = await startReplica();
    const deep = { value: 'x'.repeat(4_096) };
    for (const [body, field] of [
      ...[0, -1, 1.5, '5000', null, 2 ** 31].map((ttlMs) => [{ ttlMs }, 'ttlMs'] as const),
      ...['l'.repeat(201), 7, null].map((label) => [{ label }, 'label'] as const),
      ...['text', [], 7, null, deep].map((metadata) => [{ metadata }, 'metadata'] as const),
      ...['', 'r'.repeat(65), 'a/b', 7].map((requestId) => [{ requestId }, 'requestId'] as const),
      [{ ttl: 5_000 }, 'ttl'],
      [{ ttlMs: 5_000, namespace: 'x' }, 'namespace'],
    ] as const) {
      expectInvalid(await replica.call('POST', '/v1/leases', { body }), field, body);
    }
    expect((await replica.expect(200, 'GET', '/v1/leases')).items).toEqual([]);
    const good = {
      ttlMs: 5_000,
      label: 'ü'.repeat(200),
      metadata: { value: 'x'.repeat(4_096 - '{"value":""}'.length) },
      requestId: 'r'.repeat(64),
    };
    expect((await replica.showLease(await replica.createLease(good))).body).toMatchObject({
      label: good.label,
      metadata: good.metadata,
    });
  });

  it('a method or path that there is not', async () => {
    await using replica = await startReplica();
    const put = await replica.call('PUT', '/v1/leases', { body: {} });
    expect(put.body).toMatchObject({ status: 405, code: 'method-not-allowed' });
    expect(String(put.headers['allow']).split(', ').sort()).toEqual(expect.arrayContaining(['GET', 'POST']));
    expect((await replica.call('GET', '/v1/locks/any/acquire')).status).toBe(405);
    expect((await replica.call('DELETE', '/v1/locks/any')).status).toBe(405);
    expect((await replica.call('POST', '/v1/leases/self/renew')).status).toBe(404);
    expect((await replica.expect(200, 'GET', '/v1/leases')).items).toEqual([]);
  });
});
