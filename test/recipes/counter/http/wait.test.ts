/** Waiting for the value of a counter: a latch, counted up or down at any replica. */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import type { Client, Reply } from '../../../support/http/client.js';
import { startPair } from '../../../support/start-gateway.js';

const LONG = 20_000;

async function add(client: Client, by: number): Promise<void> {
  await client.expect(200, 'POST', '/v1/counters/latch/add', { body: { by } });
}

function read(client: Client, query: string, known?: string): Promise<Reply> {
  const headers = known === undefined ? {} : { 'If-None-Match': known };
  return client.call('GET', `/v1/counters/latch?${query}`, { headers });
}

describe('a wait for a value', () => {
  it('is answered when the counter has been counted up to it at the other replica, and not before', async () => {
    await using pair = await startPair();
    const waiting = read(pair.b, `atLeast=3&waitMs=${LONG}`);
    await eventually('it waits', () => pair.b.gateway.observed() === 1);
    for (let i = 0; i < 3; i += 1) await add(pair.a, 1);
    expect(await waiting).toMatchObject({ status: 200, body: { name: 'latch', value: 3 } });
  });

  it('is a latch that is counted down', async () => {
    await using pair = await startPair();
    await add(pair.a, 2);
    const waiting = read(pair.b, `atMost=0&waitMs=${LONG}`);
    await eventually('it waits', () => pair.b.gateway.observed() === 1);
    await add(pair.b, -1);
    await add(pair.a, -1);
    expect((await waiting).body).toEqual({ name: 'latch', value: 0 });
  });

  it('is answered at once when the value is there, also a range, and with an ETag only when it has changed', async () => {
    await using pair = await startPair();
    await add(pair.a, 5);
    const there = await read(pair.b, `atLeast=5&waitMs=${LONG}`);
    expect(there.body).toEqual({ name: 'latch', value: 5 });
    expect((await read(pair.b, `atLeast=4&atMost=6&waitMs=${LONG}`)).body).toMatchObject({ value: 5 });
    const known = String(there.headers['etag']);
    expect((await read(pair.b, 'atLeast=5&waitMs=100', known)).status).toBe(304);
    const waiting = read(pair.b, `atLeast=5&waitMs=${LONG}`, known);
    await eventually('it waits', () => pair.b.gateway.observed() === 1);
    await add(pair.a, -1);
    await add(pair.a, 3);
    expect((await waiting).body).toEqual({ name: 'latch', value: 7 });
  });

  it('in vain ends with the value as it is', async () => {
    await using pair = await startPair();
    await add(pair.a, 2);
    expect(await read(pair.b, 'atLeast=3&waitMs=100')).toMatchObject({ status: 200, body: { value: 2 } });
    expect(await read(pair.b, 'atLeast=3')).toMatchObject({ status: 200, body: { value: 2 } });
  });

  it('names what is wrong with its bounds', async () => {
    await using pair = await startPair();
    for (const [query, field] of [
      ['atLeast=x', 'atLeast'],
      ['atMost=1.5', 'atMost'],
      ['atLeast=9007199254740993', 'atLeast'],
      ['atLeast=2&atMost=1', 'atLeast'],
    ] as const)
      expect(await read(pair.a, `${query}&waitMs=100`), query).toMatchObject({ status: 422, body: { field } });
  });
});
