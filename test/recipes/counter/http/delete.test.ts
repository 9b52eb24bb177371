/**
 * Counters that are deleted: as if they had never been used, and whatever is still on its way to the old one does
 * nothing to a new one.
 */
import { describe, expect, it } from 'vitest';
import type { Client, Reply } from '../../../support/http/client.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';

const IDLE_MS = 3_600_000;

function add(client: Client, name: string, requestId?: string): Promise<Reply> {
  return client.call('POST', `/v1/counters/${name}/add`, {
    body: { by: 1, ...(requestId !== undefined && { requestId }) },
  });
}

function remove(client: Client, name: string, headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('DELETE', `/v1/counters/${name}`, { headers });
}

function show(client: Client, name: string, query = '', headers: Record<string, string> = {}): Promise<Reply> {
  return client.call('GET', `/v1/counters/${name}${query}`, { headers });
}

async function etagOf(client: Client, name: string): Promise<string> {
  return String((await show(client, name)).headers['etag']);
}

describe('a deleted counter', () => {
  it('is 0 and in no list at every replica, and counts from 0 when it is used again', async () => {
    await using pair = await startPair();
    expect(await remove(pair.a, 'hits')).toMatchObject({ status: 404, body: { code: 'not-found', name: 'hits' } });
    await add(pair.a, 'hits');
    await add(pair.a, 'other');
    expect((await remove(pair.b, 'hits')).status).toBe(204);
    for (const replica of [pair.a, pair.b]) {
      expect((await show(replica, 'hits')).body).toEqual({ name: 'hits', value: 0 });
      expect(await replica.expect(200, 'GET', '/v1/counters')).toEqual({ items: [{ name: 'other', value: 1 }] });
      expect(await remove(replica, 'hits')).toMatchObject({ status: 404, body: { outcome: 'not-applied' } });
    }
    expect((await add(pair.a, 'hits')).body).toEqual({ name: 'hits', value: 1 });
    expect(await pair.b.expect(200, 'GET', '/v1/counters')).toMatchObject({
      items: [{ name: 'hits' }, { name: 'other' }],
    });
  });

  it('is deleted only in the state that If-Match names, of which no later one has the ETag', async () => {
    await using pair = await startPair();
    const unused = await etagOf(pair.a, 'hits');
    const refused = { status: 412, body: { code: 'version-mismatch', name: 'hits' } };
    for (const tag of [unused, '*']) expect(await remove(pair.b, 'hits', { 'If-Match': tag })).toMatchObject(refused);
    await add(pair.a, 'hits');
    const first = await etagOf(pair.a, 'hits');
    await add(pair.a, 'hits');
    const second = await etagOf(pair.b, 'hits');
    expect(await remove(pair.b, 'hits', { 'If-Match': first })).toMatchObject({ ...refused, body: { value: 2 } });
    expect((await remove(pair.b, 'hits', { 'If-Match': `${first}, W/${second}` })).status).toBe(204);
    await add(pair.a, 'hits');
    expect([unused, first, second]).not.toContain(await etagOf(pair.b, 'hits'));
    for (const tag of [first, second])
      expect(await remove(pair.b, 'hits', { 'If-Match': tag })).toMatchObject({ ...refused, body: { value: 1 } });
    expect(await remove(pair.b, 'hits', { 'If-Match': 'x' })).toMatchObject({
      status: 422,
      body: { field: 'If-Match' },
    });
    expect((await remove(pair.b, 'hits', { 'If-Match': '*' })).status).toBe(204);
  });

  it('answers repeats as before, and they do nothing to the new one', async () => {
    await using pair = await startPair();
    await add(pair.a, 'hits', 'r1');
    expect((await remove(pair.a, 'hits', { 'Idempotency-Key': 'd1' })).status).toBe(204);
    expect((await add(pair.b, 'hits', 'r1')).body).toEqual({ name: 'hits', value: 1 });
    expect((await show(pair.a, 'hits')).body).toMatchObject({ value: 0 });
    expect((await add(pair.a, 'hits', 'r2')).body).toMatchObject({ value: 1 });
    expect((await remove(pair.b, 'hits', { 'Idempotency-Key': 'd1' })).status).toBe(204);
    expect((await show(pair.a, 'hits')).body).toMatchObject({ value: 1 });
    expect(await remove(pair.b, 'hits', { 'Idempotency-Key': 'r2' })).toMatchObject({
      status: 422,
      body: { field: 'Idempotency-Key' },
    });
  });

  it('is seen to go by those who poll and watch', async () => {
    await using pair = await startPair();
    await add(pair.a, 'hits');
    await using stream = await EventReader.open(pair.b.gateway.url, '/v1/counters/hits/events');
    await eventually('it begins', () => stream.seen.length === 1);
    const polling = show(pair.b, 'hits', '?waitMs=20000', { 'If-None-Match': await etagOf(pair.b, 'hits') });
    await remove(pair.a, 'hits');
    expect((await polling).body).toEqual({ name: 'hits', value: 0 });
    await eventually('the stream tells', () => stream.seen.length === 2);
    expect(stream.seen[1]).toMatchObject({ event: 'state', data: { name: 'hits', value: 0 } });
  });

  it('among those who add at once has each value told once between two deletions', async () => {
    await using pair = await startPair();
    const replies = await Promise.all(
      Array.from({ length: 200 }, (_, i) => {
        const replica = [pair.a, pair.b][i % 2]!;
        return i % 40 === 20 ? remove(replica, 'busy') : add(replica, 'busy');
      }),
    );
    const values = replies.flatMap(({ status, body }) => (status === 200 ? [(body as { value: number }).value] : []));
    const deleted = replies.filter(({ status }) => status === 204).length;
    expect(values).toHaveLength(195);
    // Between deletions it counts 1, 2, 3 …: no value is told more often than there were beginnings, and none is left
    // out below a higher one.
    const told = Array.from(
      { length: Math.max(...values) },
      (_, i) => values.filter((value) => value === i + 1).length,
    );
    expect(told).toEqual([...told].sort((x, y) => y - x));
    expect(told[0]).toBeLessThanOrEqual(deleted + 1);
    expect(told.at(-1)).toBeGreaterThan(0);
  });
});

describe('housekeeping', () => {
  it('removes what a deleted counter leaves when it is old enough, and nothing else', async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 50, idleMs: IDLE_MS, tombstoneMs: 1_000 } });
    const { control, layout } = pair.a.gateway.context;
    const names = async (): Promise<string[]> =>
      (await control.getChildren(layout.counters('default'))).children.sort();
    for (const name of ['again', 'gone', 'stays']) await add(pair.a, name);
    for (const name of ['again', 'gone']) await remove(pair.b, name);
    await add(pair.b, 'again');
    await eventually('it is removed', async () => !(await names()).includes('gone'));
    expect(await names()).toEqual(['again', 'stays']);
    expect((await show(pair.a, 'again')).body).toMatchObject({ value: 1 });
    expect((await add(pair.b, 'gone')).body).toMatchObject({ value: 1 });
  });

  it('leaves it as long as something may still be on its way to it', async () => {
    await using pair = await startPair({ housekeeping: { everyMs: 50, idleMs: IDLE_MS, markMs: 200 } });
    const { control, layout } = pair.a.gateway.context;
    await add(pair.a, 'gone', 'r1');
    await remove(pair.b, 'gone');
    const mark = layout.counterMarks('default');
    const marks = async (): Promise<number> => {
      const buckets = (await control.getChildren(mark)).children.map((bucket) =>
        control.getChildren(`${mark}/${bucket}`),
      );
      return (await Promise.all(buckets)).reduce((sum, { children }) => sum + children.length, 0);
    };
    await eventually('housekeeping has been there twice', async () => (await marks()) === 0);
    expect((await control.getChildren(layout.counters('default'))).children).toEqual(['gone']);
  });
});
