/** Bodies: read whole and by the contract, or refused before anything is done. */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { rawConnection, send, sendRaw } from '../client.js';
import { frame, seen, acquire, acquireBytes, expectRefused, JSON_TYPE, useFrame } from './frame.js';

useFrame();

describe('a JSON body', () => {
  it.each([
    ['application/json', JSON_TYPE],
    ['application/json with a charset', { 'Content-Type': 'application/json; charset="UTF-8"' }],
    ['the type that curl -d sends', { 'Content-Type': 'application/x-www-form-urlencoded' }],
  ])('is read as %s', async (_what, headers) => {
    expect((await acquire('{"waitMs": 5}', headers)).status).toBe(200);
    expect(seen[0]?.body).toEqual({ waitMs: 5, keepPlace: false });
  });

  it('is read without any type', async () => {
    expect((await acquireBytes('{"waitMs":7}')).status).toBe(200);
    expect(seen[0]?.body).toMatchObject({ waitMs: 7 });
  });

  it('is {} when it is empty, whatever its type, also in chunks', async () => {
    expect((await acquire(undefined)).status).toBe(200);
    expect((await acquire('', { 'Content-Type': 'text/plain' })).status).toBe(200);
    const chunked =
      'POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    expect((await sendRaw(frame.url, chunked, 'post', '/v1/locks/a/acquire')).status).toBe(200);
    expect(seen.map(({ body }) => body)).toEqual(Array(3).fill({ waitMs: 0, keepPlace: false }));
  });

  it('may begin with a byte order mark', async () => {
    expect((await acquireBytes('\xef\xbb\xbf{"waitMs":1}')).status).toBe(200);
  });

  it.each([
    ['text/plain', { 'Content-Type': 'text/plain' }],
    ['multipart/form-data', { 'Content-Type': 'multipart/form-data; boundary=x' }],
    ['another character set', { 'Content-Type': 'application/json; charset=latin1' }],
    ['a compressed body', { ...JSON_TYPE, 'Content-Encoding': 'gzip' }],
  ])('is refused as %s', async (_what, headers) => {
    expectRefused(await acquire('{}', headers), 415, 'unsupported-media-type');
  });

  it.each([
    ['{', 1],
    ['{"waitMs": 1,}', 13],
    ['{"waitMs": 01}', 12],
    ['{"a": 1 "b": 2}', 8],
    ["{'waitMs': 1}", 1],
    ['{} x', 3],
    ['nul', 0],
    ['{"label": "a\nb"}', 12],
    ['{"label": "\\x"}', 11],
    ['{"label": "abc', 14],
    ['[1, 2', 5],
    ['waitMs=1', 0],
  ])('that is not JSON is refused with the position: %j', async (body, position) => {
    const response = await acquire(body, JSON_TYPE);
    expectRefused(response, 400, 'malformed');
    expect((response.body as { position: number }).position).toBe(position);
  });

  it('that is not UTF-8 is refused', async () => {
    expectRefused(await acquireBytes('"\xff"'), 400, 'malformed');
  });

  it('with a member twice is refused, however it is written', async () => {
    expectRefused(await acquire('{"waitMs": 1, "wait\\u004ds": 2}', JSON_TYPE), 400, 'malformed');
  });

  it('with a __proto__ member is refused, also deep inside', async () => {
    expectRefused(await acquire('{"data": {"a": [{"__proto__": {"admin": true}}]}}', JSON_TYPE), 400, 'malformed');
    expectRefused(await acquire('{"data": {"__pr\\u006fto__": 1}}', JSON_TYPE), 400, 'malformed');
  });

  it('nested without end is refused', async () => {
    expectRefused(await acquire(`{"data": ${'['.repeat(5000)}`, JSON_TYPE), 400, 'malformed');
  });

  it('never appears in the answer, for it may be a token that lost its way', async () => {
    for (const body of [
      'v1.secret-token',
      '"v1.secret-token"',
      '{"leaseToken": "v1.secret-token"}',
      '{"data": v1.secret-token}',
    ]) {
      expect((await acquire(body, JSON_TYPE)).text).not.toContain('secret-token');
    }
    const response = await send(frame.url, 'post', '/v1/leases/heartbeat', (test) =>
      test.send({ leaseTokens: 'v1.secret-token' }),
    );
    expect(response.status).toBe(422);
    expect(response.text).not.toContain('secret-token');
  });
});

describe('a body that is too large', () => {
  const max = 4096 * 4;

  it('is refused by its announced length, before it is sent', async () => {
    const head = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${max + 1}\r\n\r\n`;
    const answer = await sendRaw(frame.url, head, 'post', '/v1/locks/a/acquire');
    expect(answer).toMatchObject({
      status: 413,
      body: { code: 'too-large', maxBytes: max },
      headers: { connection: 'close' },
    });
  });

  it('is refused when it comes in chunks and grows past the limit', async () => {
    const chunk = `${max.toString(16)}\r\n${' '.repeat(max)}\r\n`;
    const bytes = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}${chunk}0\r\n\r\n`;
    expect(await sendRaw(frame.url, bytes, 'post', '/v1/locks/a/acquire')).toMatchObject({ status: 413 });
    expect(seen).toEqual([]);
  });

  it('is one byte above the limit', async () => {
    const fill = (bytes: number): string => `{"waitMs":0}${' '.repeat(bytes - 12)}`;
    expect((await acquire(fill(max), JSON_TYPE)).status).toBe(200);
    seen.splice(0);
    expectRefused(await acquire(fill(max + 1), JSON_TYPE), 413, 'too-large');
  });

  it('is asked for with 100 Continue when it is not', async () => {
    const body = '{"waitMs":3}';
    const bytes = `POST /v1/locks/a/acquire HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`;
    await using connection = await rawConnection(frame.url);
    connection.socket.write(bytes);
    await eventually('the body is asked for', () => connection.received() === 'HTTP/1.1 100 Continue\r\n\r\n');
    connection.socket.write(body);
    await eventually('the request is answered', () => connection.received().includes('HTTP/1.1 200 OK'));
  });
});

describe('a value outside its rule', () => {
  it.each([
    ['waitMs', { waitMs: 55_001 }, '55000'],
    ['waitMs', { waitMs: -1 }, 'at least 0'],
    ['waitMs', { waitMs: 1.5 }, 'an integer'],
    ['waitMs', { waitMs: '5' }, 'an integer'],
    ['waitMs', { waitMs: null }, 'an integer'],
    ['requestId', { requestId: '' }, '1 to 64 characters'],
    ['requestId', { requestId: 'x'.repeat(65) }, '1 to 64 characters'],
    ['requestId', { requestId: 'a b' }, '1 to 64 characters'],
    ['keepPlace', { keepPlace: 'yes' }, 'a boolean'],
    ['data', { data: 'x'.repeat(4095) }, '4096 bytes'],
    ['data', { data: 'ü'.repeat(2048) }, '4096 bytes'],
    ['lease', { lease: 5 }, 'an object'],
    ['lease.ttlMs', { lease: { ttlMs: 2 ** 31 } }, 'at most 2147483647'],
    ['lease.label', { lease: { label: 'x'.repeat(201) } }, 'at most 200 characters'],
  ])('is refused with its name and the rule: %s in %j', async (field, body, rule) => {
    const response = await acquire(JSON.stringify(body), JSON_TYPE);
    expectRefused(response, 422, 'invalid');
    expect(response.body).toMatchObject({ field, in: 'body' });
    expect((response.body as { detail: string }).detail).toMatch(
      new RegExp(`^${field.replace('.', '\\.')} is .*; it must be .*${rule}`),
    );
  });

  it.each(['[]', '"text"', '5', 'null', 'true'])('is a body that is no object: %s', async (body) => {
    expectRefused(await acquire(body, JSON_TYPE), 422, 'invalid');
  });

  it('may have exactly 4096 bytes as data', async () => {
    expect((await acquire(JSON.stringify({ data: 'x'.repeat(4094) }), JSON_TYPE)).status).toBe(200);
  });

  it('is listed with the others that are wrong', async () => {
    const response = await acquire(
      JSON.stringify({ waitMs: -1, keepPlace: 1, lease: { ttl: 5 }, colour: 'red', size: 2 }),
      JSON_TYPE,
    );
    expectRefused(response, 422, 'invalid');
    const { errors } = response.body as { errors: { field: string; detail: string }[] };
    expect(errors.map(({ field }) => field).sort()).toEqual(['colour', 'keepPlace', 'lease.ttl', 'waitMs']);
    expect(errors.find(({ field }) => field === 'colour')?.detail).toContain('"colour", "size"');
  });

  it('does not make the answer grow with the request', async () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`member${index}`, 'x'.repeat(10)]));
    const response = await acquire(JSON.stringify({ ...many, requestId: 'y'.repeat(1000) }), JSON_TYPE);
    expectRefused(response, 422, 'invalid');
    expect(response.text.length).toBeLessThan(2000);
  });

  it('is refused in the query', async () => {
    for (const query of [
      'limit=0',
      'limit=1001',
      'limit=1e2',
      'limit=',
      'limit=%31%30x',
      'consistency=maybe',
      'prefix=a/b',
      'colour=red',
      '__proto__=1',
      'limit=1&limit=2',
    ]) {
      const response = await send(frame.url, 'get', `/v1/locks?${query}`);
      expectRefused(response, 422, 'invalid');
      expect(response.body).toMatchObject({ in: 'query' });
    }
  });

  it('is refused in a header', async () => {
    const response = await send(frame.url, 'get', '/v1/locks', (test) => test.set('Namespace', 'a/b'));
    expectRefused(response, 422, 'invalid');
    expect(response.body).toMatchObject({ field: 'Namespace', in: 'header' });
  });
});
