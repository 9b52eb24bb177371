/** Read-write locks: who shares, who excludes, who comes first. */
import { describe, expect, test } from 'vitest';
import { Witness } from '../../../support/scene.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';

const TTL_MS = 10_000;

function acquire(replica: Replica, name: string, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', `/v1/rwlocks/${name}/acquire`, { body, leaseToken: lease.leaseToken });
}

function release(
  replica: Replica,
  name: string,
  lease: LeaseHandle,
  body: Record<string, unknown> = {},
): Promise<Reply> {
  return replica.call('POST', `/v1/rwlocks/${name}/release`, { body, leaseToken: lease.leaseToken });
}

async function untilWaiting(replica: Replica, name: string, count: number): Promise<void> {
  await eventually(`${count} wait for ${name}`, async () => {
    const { waiterCount } = (await replica.expect(200, 'GET', `/v1/rwlocks/${name}`)) as { waiterCount: number };
    return waiterCount === count;
  });
}

interface Held {
  holdId: string;
  fencingToken: number;
}

describe('a read-write lock', () => {
  test('shows a reader once, and no token that nobody was given, while a repetition of its request has a node of its own', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const held = (await acquire(pair.a, 'repeated', lease, { mode: 'read', requestId: 'r' })).body as Held;
    const directory = witness.layout.line('rwlock', 'default', 'repeated');
    const [name] = (await witness.control.getChildren(directory)).children as [string];
    const { data } = await witness.control.getData(`${directory}/${name}`);
    const again = await witness.control.create(`${directory}/${name.slice(0, -10)}`, data, {
      mode: 'ephemeral-sequential',
    });
    const { czxid } = again.stat;
    expect(czxid).toBeGreaterThan(held.fencingToken);
    for (const replica of [pair.a, pair.b]) {
      expect(await replica.expect(200, 'GET', '/v1/rwlocks/repeated')).toMatchObject({
        holders: [{ fencingToken: held.fencingToken }],
        holderCount: 1,
        waiterCount: 0,
      });
      const check = await replica.call('POST', '/v1/rwlocks/repeated/check', { body: { fencingToken: czxid } });
      expect(check.body).toEqual({ current: false, latestFencingToken: held.fencingToken });
    }
  });

  test('is shared by readers at both replicas', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    expect((await acquire(pair.a, 'book', one, { mode: 'read' })).status).toBe(200);
    expect((await acquire(pair.b, 'book', two, { mode: 'read' })).status).toBe(200);
    const shown = (await pair.a.expect(200, 'GET', '/v1/rwlocks/book')) as {
      holders: { mode: string }[];
      holderCount: number;
    };
    expect(shown.holders.map(({ mode }) => mode)).toEqual(['read', 'read']);
    expect(shown.holderCount).toBe(2);
  });

  test('excludes everybody while it is held for writing', async () => {
    await using pair = await startPair();
    const [writer, reader, other] = (await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: TTL_MS })))) as [
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
    ];
    expect((await acquire(pair.a, 'book', writer, { mode: 'write' })).status).toBe(200);
    for (const [lease, mode] of [
      [reader, 'read'],
      [other, 'write'],
    ] as const) {
      const refused = await acquire(pair.b, 'book', lease, { mode });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'lock-held', holder: { leaseId: writer.leaseId } });
    }
  });

  test('lets a writer in when the last of the readers before it has gone, and not before', async () => {
    await using pair = await startPair();
    const readers = await Promise.all(
      [0, 1, 2, 3].map((i) => (i % 2 === 0 ? pair.a : pair.b).createLease({ ttlMs: TTL_MS })),
    );
    for (const [i, lease] of readers.entries())
      expect((await acquire(i % 2 === 0 ? pair.a : pair.b, 'book', lease, { mode: 'read' })).status).toBe(200);
    const writer = await pair.b.createLease({ ttlMs: TTL_MS });
    let granted: Reply | undefined;
    const waiting = acquire(pair.b, 'book', writer, { mode: 'write', waitMs: 20_000 }).then(
      (reply) => (granted = reply),
    );
    await untilWaiting(pair.a, 'book', 1);
    // The last in line first, so that whoever it watches is not the last to go.
    for (const lease of [...readers].reverse().slice(0, 3))
      expect((await release(pair.a, 'book', lease)).status).toBe(204);
    await throughout('the writer waits while one reader is left', () => granted === undefined);
    expect((await release(pair.b, 'book', readers[0] as LeaseHandle)).status).toBe(204);
    expect((await waiting).status).toBe(200);
    expect(await pair.b.metric('postern_spurious_wakeups_total', { kind: 'rwlock' })).toBe(0);
  });

  test('makes a reader that comes after a waiting writer wait behind it, so that writers do not starve', async () => {
    await using pair = await startPair();
    const [first, writer, late] = (await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: TTL_MS })))) as [
      LeaseHandle,
      LeaseHandle,
      LeaseHandle,
    ];
    const held = (await acquire(pair.a, 'book', first, { mode: 'read' })).body as Held;
    const writing = acquire(pair.b, 'book', writer, { mode: 'write', waitMs: 20_000 });
    await untilWaiting(pair.a, 'book', 1);
    expect((await acquire(pair.a, 'book', late, { mode: 'read' })).status).toBe(409);
    const reading = acquire(pair.a, 'book', late, { mode: 'read', waitMs: 20_000 });
    await untilWaiting(pair.b, 'book', 2);
    await release(pair.a, 'book', first, { holdId: held.holdId });
    const wrote = (await writing).body as Held;
    expect(wrote.fencingToken).toBeGreaterThan(held.fencingToken);
    await untilWaiting(pair.a, 'book', 1);
    await release(pair.b, 'book', writer, { holdId: wrote.holdId });
    expect(((await reading).body as Held).fencingToken).toBeGreaterThan(wrote.fencingToken);
  });

  test('admits all readers up to the next writer at once when a writer leaves', async () => {
    await using pair = await startPair();
    const writer = await pair.a.createLease({ ttlMs: TTL_MS });
    await acquire(pair.a, 'book', writer, { mode: 'write' });
    const leases = await Promise.all([0, 1, 2, 3, 4].map(() => pair.a.createLease({ ttlMs: TTL_MS })));
    const modes = ['read', 'read', 'read', 'write', 'read'];
    const states: string[] = modes.map(() => 'waiting');
    const waits = [];
    for (const [i, lease] of leases.entries()) {
      waits.push(
        acquire(i % 2 === 0 ? pair.a : pair.b, 'book', lease, { mode: modes[i], waitMs: 20_000 }).then(
          ({ status }) => (states[i] = String(status)),
        ),
      );
      await untilWaiting(pair.a, 'book', i + 1);
    }
    await release(pair.b, 'book', writer);
    await eventually('three readers are in', () => states.slice(0, 3).every((state) => state === '200'));
    await throughout(
      'the writer and the reader behind it wait',
      () => states[3] === 'waiting' && states[4] === 'waiting',
    );
    for (const lease of leases.slice(0, 3)) await release(pair.a, 'book', lease);
    await eventually('the writer is in', () => states[3] === '200');
    expect(states[4]).toBe('waiting');
    await release(pair.a, 'book', leases[3] as LeaseHandle);
    await Promise.all(waits);
    expect(states[4]).toBe('200');
  });

  test('is one hold per requestId, in one mode', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const held = (await acquire(pair.a, 'book', lease, { mode: 'read' })).body as Held;
    expect((await acquire(pair.b, 'book', lease, { mode: 'read' })).body).toMatchObject({
      holdId: held.holdId,
      alreadyHeld: true,
    });
    const other = await acquire(pair.b, 'book', lease, { mode: 'write' });
    expect(other.status).toBe(409);
    expect(other.body).toMatchObject({ code: 'conflict' });
    expect((await acquire(pair.b, 'book', lease, { mode: 'read', requestId: 'thread-2' })).body).toMatchObject({
      alreadyHeld: false,
    });
    const shown = (await pair.a.showLease(lease)).body as { holds: { kind: string; held: boolean }[] };
    expect(shown.holds.map(({ kind, held }) => ({ kind, held }))).toEqual([
      { kind: 'rwlock', held: true },
      { kind: 'rwlock', held: true },
    ]);
  });

  test('says of every holder whether its fencing token is current', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.a.createLease({ ttlMs: TTL_MS }),
    ]);
    const first = (await acquire(pair.a, 'book', one, { mode: 'read' })).body as Held;
    const second = (await acquire(pair.a, 'book', two, { mode: 'read' })).body as Held;
    const check = (fencingToken: number): Promise<unknown> =>
      pair.b.expect(200, 'POST', '/v1/rwlocks/book/check', { body: { fencingToken } });
    expect(await check(first.fencingToken)).toEqual({ current: true, latestFencingToken: second.fencingToken });
    expect(await check(second.fencingToken)).toEqual({ current: true, latestFencingToken: second.fencingToken });
    await release(pair.b, 'book', one, { holdId: first.holdId });
    expect(await check(first.fencingToken)).toEqual({ current: false, latestFencingToken: second.fencingToken });
  });

  test('tells a long poll when a reader joins those who hold', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.a.createLease({ ttlMs: TTL_MS }),
    ]);
    await acquire(pair.a, 'book', one, { mode: 'read' });
    const { headers } = await pair.b.call('GET', '/v1/rwlocks/book');
    const poll = pair.b.call('GET', '/v1/rwlocks/book?waitMs=20000', {
      headers: { 'if-none-match': String(headers['etag']) },
    });
    await eventually('the poll waits', () => pair.b.gateway.recipes.line.observers.size === 1);
    await acquire(pair.a, 'book', two, { mode: 'read' });
    expect((await poll).body).toMatchObject({ holderCount: 2 });
  });

  test('frees what a reader held when its lease ends, and lets the writer in', async () => {
    await using pair = await startPair();
    const reader = await pair.a.createLease({ ttlMs: 1_000 });
    const writer = await pair.b.createLease({ ttlMs: TTL_MS });
    await acquire(pair.a, 'book', reader, { mode: 'read' });
    expect((await acquire(pair.b, 'book', writer, { mode: 'write', waitMs: 20_000 })).status).toBe(200);
    expect((await release(pair.a, 'book', reader)).status).toBe(410);
  });

  test('needs a mode', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const missing = await acquire(pair.a, 'book', lease, {});
    expect(missing.status).toBe(422);
    expect(missing.body).toMatchObject({ code: 'invalid', field: 'mode' });
    expect((await acquire(pair.a, 'book', lease, { mode: 'exclusive' })).status).toBe(422);
    expect(await pair.b.expect(200, 'GET', '/v1/rwlocks/book')).toMatchObject({ holderCount: 0, waiterCount: 0 });
  });
});
