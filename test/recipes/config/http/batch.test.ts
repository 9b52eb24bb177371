/** Several writes of the configuration in one: all or none. */
import { describe, expect, it } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { etagOfPut, get, keysOf, put, remove, write } from '../client.js';

describe('several writes in one', () => {
  it('are all done, and answered in order', async () => {
    await using pair = await startPair();
    const etag = (await etagOfPut(pair.a, 'a', 'old')).slice(1, -1);
    await put(pair.a, 'gone', 'x');
    const reply = await write(pair.b, [
      { check: 'free/here', ifAbsent: true },
      { put: 'z/new/deep', valueBase64: 'AAEC', contentType: 'image/x-y' },
      { delete: 'gone' },
      { put: 'a', value: { b: [1, null] }, ifMatch: etag },
      { put: 'a/below', value: null },
      { check: 'a/none', ifAbsent: true },
    ]);
    expect(reply.status).toBe(200);
    const [, made, , replaced, below] = reply.body.items as { etag: string }[];
    expect(reply.body.items).toEqual([
      { check: 'free/here', status: 200 },
      { put: 'z/new/deep', status: 201, etag: made?.etag },
      { delete: 'gone', status: 204 },
      { put: 'a', status: 200, etag: replaced?.etag },
      { put: 'a/below', status: 201, etag: below?.etag },
      { check: 'a/none', status: 200 },
    ]);
    expect(await get(pair.a, 'a')).toMatchObject({ body: { b: [1, null] }, headers: { etag: `"${replaced?.etag}"` } });
    expect(await get(pair.a, 'z/new/deep')).toMatchObject({ headers: { 'content-type': 'image/x-y' } });
    expect((await get(pair.a, 'a/below')).headers).toMatchObject({
      'content-type': 'application/json',
      etag: `"${below?.etag}"`,
    });
    expect(await keysOf(pair.a)).toEqual(['a', 'a/below', 'z/new/deep']);
  });

  it('are none of them done when one cannot be, and the answer says which', async () => {
    await using pair = await startPair();
    const etag = await etagOfPut(pair.a, 'there', 'x');
    for (const [bad, status, body] of [
      [{ delete: 'none' }, 404, { code: 'not-found', key: 'none', index: 1 }],
      [{ delete: 'there', ifMatch: '1-1' }, 412, { code: 'version-mismatch', key: 'there', etag: etag.slice(1, -1) }],
      [{ check: 'none' }, 412, { key: 'none', etag: null, index: 1 }],
      [{ check: 'there', ifAbsent: true }, 412, { key: 'there', index: 1 }],
      [{ check: 'there', ifMatch: '"1-1"' }, 412, { key: 'there', index: 1 }],
      [{ put: 'none', value: 1, ifMatch: '*' }, 412, { key: 'none' }],
      [{ put: 'there', value: 1, ifAbsent: true }, 412, { key: 'there' }],
    ] as const) {
      const reply = await write(pair.b, [{ put: 'also/made', value: 1 }, bad]);
      expect(reply.status, JSON.stringify(bad)).toBe(status);
      expect(reply.body, JSON.stringify(bad)).toMatchObject({ ...body, outcome: 'not-applied' });
    }
    expect(await keysOf(pair.a)).toEqual(['there']);
    expect((await get(pair.a, 'there')).body).toBe('x');
  });

  it('are seen together or not at all, with many who write them at once', async () => {
    await using pair = await startPair();
    const both = (value: number): object[] => [
      { put: 'pair/left', value },
      { put: 'pair/right', value },
    ];
    await write(pair.a, both(0));
    const writers = Array.from({ length: 20 }, (_, i) => write([pair.a, pair.b][i % 2]!, both(i)));
    const done = Promise.all(writers);
    const checkedTogether = async (): Promise<number> => {
      // What was read is still both: as far as nobody wrote in between.
      const [left, right] = await Promise.all([get(pair.a, 'pair/left'), get(pair.b, 'pair/right')]);
      const still = await write(pair.a, [
        { check: 'pair/left', ifMatch: String(left.headers['etag']) },
        { check: 'pair/right', ifMatch: String(right.headers['etag']) },
      ]);
      if (still.status === 200) expect(left.body).toBe(right.body);
      return still.status;
    };
    for (let i = 0; i < 20; i += 1) await checkedTogether();
    for (const { status } of await done) expect(status).toBe(200);
    expect(await checkedTogether()).toBe(200);
  });

  it('that are too large together are refused with the limit, and nothing is written', async () => {
    await using pair = await startPair({ settings: { POSTERN_MAX_BODY_BYTES: '4000000' } });
    const half = Buffer.alloc(600_000).toString('base64');
    const reply = await write(pair.a, [
      { put: 'left', valueBase64: half },
      { put: 'right', valueBase64: half },
    ]);
    expect(reply).toMatchObject({ status: 413, body: { code: 'too-large', maxBytes: 1_030_000 } });
    const single = Buffer.alloc(983_041).toString('base64');
    expect(
      await write(pair.a, [
        { check: 'x', ifAbsent: true },
        { put: 'one', valueBase64: single },
      ]),
    ).toMatchObject({
      status: 413,
      body: { maxBytes: 983_040, key: 'one', index: 1 },
    });
    expect(await keysOf(pair.b)).toEqual([]);
    const third = Buffer.alloc(490_000).toString('base64');
    expect(
      (
        await write(pair.a, [
          { put: 'left', valueBase64: third },
          { put: 'right', valueBase64: third },
        ])
      ).status,
    ).toBe(200);
    const many = Array.from({ length: 100 }, (_, i) => ({ put: `many/${'x'.repeat(190)}/${i}`, value: i }));
    expect((await write(pair.b, many)).status).toBe(200);
    expect(await keysOf(pair.a, 'many/')).toHaveLength(100);
  });

  it('leave no trace of what was only checked', async () => {
    await using pair = await startPair();
    expect((await write(pair.a, [{ check: 'a/b/c', ifAbsent: true }])).status).toBe(200);
    expect((await get(pair.b, 'a/b/c')).status).toBe(404);
    expect(await keysOf(pair.b)).toEqual([]);
    await put(pair.a, 'a/b/c', 'x');
    await remove(pair.a, 'a/b/c');
    expect((await write(pair.a, [{ check: 'a/b/c', ifAbsent: true }])).status).toBe(200);
    expect((await write(pair.a, [{ check: 'a/b', ifAbsent: true }])).status).toBe(200);
  });
});
