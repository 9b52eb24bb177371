/** Many locks at once: all or none, and no circle of waiting. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CallOptions, Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 20_000;

interface Item {
  name: string;
  holdId: string;
  fencingToken: number;
  alreadyHeld: boolean;
}

function acquireAll(
  replica: Client,
  lease: LeaseHandle,
  body: Record<string, unknown>,
  options: CallOptions = {},
): Promise<Reply> {
  return replica.call('POST', '/v1/locks/acquire', { ...options, body, leaseToken: lease.leaseToken });
}

function itemsOf({ status, body }: Reply): Item[] {
  expect(status, JSON.stringify(body)).toBe(200);
  return (body as { items: Item[] }).items;
}

async function heldNames(replica: Client, lease: LeaseHandle): Promise<string[]> {
  const { holds } = (await replica.showLease(lease)).body as { holds: { name: string; held: boolean }[] };
  return holds.map(({ name }) => name).sort();
}

async function twoLeases(pair: Pair): Promise<[LeaseHandle, LeaseHandle]> {
  return Promise.all([pair.a.createLease({ ttlMs: TTL_MS }), pair.b.createLease({ ttlMs: TTL_MS })]);
}

describe('many locks at once', () => {
  it('are all held, each with its own hold and fencing token, in the order of the request', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const reply = await acquireAll(pair.a, lease, { names: ['zebra', 'ape', 'Ape'], requestId: 'r' });
    const items = itemsOf(reply);
    expect(items.map(({ name }) => name)).toEqual(['zebra', 'ape', 'Ape']);
    expect(reply.body).toMatchObject({ requestId: 'r', leaseId: lease.leaseId, ttlMs: TTL_MS });
    for (const { name, holdId, fencingToken } of items) {
      expect(await pair.b.expect(200, 'POST', `/v1/locks/${name}/check`, { body: { fencingToken } })).toMatchObject({
        current: true,
      });
      expect((await pair.b.release(name, lease, { holdId })).status).toBe(204);
    }
    expect(await heldNames(pair.a, lease)).toEqual([]);
  });

  it('answer a repeated request with the same holds, at the other replica too', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const first = itemsOf(await acquireAll(pair.a, lease, { names: ['one', 'two'] }));
    const again = itemsOf(await acquireAll(pair.b, lease, { names: ['two', 'one'] }));
    expect(again).toEqual([...first].reverse().map((item) => ({ ...item, alreadyHeld: true })));
  });

  it('are none when one of them is held, which the refusal names; what was held before stays held', async () => {
    await using pair = await startPair();
    const [mine, other] = await twoLeases(pair);
    await pair.a.hold('b', mine);
    await pair.b.hold('c', other);
    const refused = await acquireAll(pair.a, mine, { names: ['d', 'c', 'b', 'a'] });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'lock-held', name: 'c', holder: { leaseId: other.leaseId } });
    expect(await heldNames(pair.b, mine)).toEqual(['b']);
    expect(await pair.b.expect(200, 'GET', '/v1/locks')).toMatchObject({ items: [{ name: 'b' }, { name: 'c' }] });
  });

  it('are none when the wait for one of them is over, and the places in line are given up', async () => {
    await using pair = await startPair();
    const [mine, other] = await twoLeases(pair);
    await pair.b.hold('c', other);
    const refused = await acquireAll(pair.a, mine, { names: ['a', 'c', 'd'], waitMs: scaled(300) });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ name: 'c' });
    expect(await heldNames(pair.b, mine)).toEqual([]);
    expect(await pair.a.showLock('c')).toMatchObject({ waiterCount: 0 });
  });

  it('wait for the one that is held, with the ones before it held', async () => {
    await using pair = await startPair();
    const [mine, other] = await twoLeases(pair);
    await pair.b.hold('c', other);
    const waiting = acquireAll(pair.a, mine, { names: ['d', 'c', 'a'], waitMs: 20_000 });
    await pair.b.untilWaiting('c', 1);
    expect(await pair.b.showLock('a')).toMatchObject({ holders: [{ leaseId: mine.leaseId }] });
    expect(await pair.b.showLock('d')).toMatchObject({ holders: [] });
    await pair.b.release('c', other);
    expect(itemsOf(await waiting)).toHaveLength(3);
  });

  it.each(['broken', 'released'] as const)(
    'are none when one was %s while the request waited for another',
    async (how) => {
      await using pair = await startPair();
      const [mine, other] = await twoLeases(pair);
      await pair.b.hold('c', other);
      const waiting = acquireAll(pair.a, mine, { names: ['a', 'b', 'c'], waitMs: 20_000, requestId: 'r' });
      await pair.b.untilWaiting('c', 1);
      if (how === 'broken') await pair.b.expect(200, 'POST', '/v1/locks/b/revoke', { body: { graceMs: 0 } });
      else await pair.b.release('b', mine, { requestId: 'r' });
      await pair.b.hold('b', other, { waitMs: 20_000 });
      await pair.b.release('c', other);
      const { status, body } = await waiting;
      expect(status).toBe(409);
      expect(body).toMatchObject({ code: 'conflict', name: 'b', retryable: true, outcome: 'not-applied' });
      expect(await heldNames(pair.b, mine)).toEqual([]);
      expect(await heldNames(pair.a, other)).toEqual(['b']);
    },
  );

  it('are given back when the client goes away while it waits', async () => {
    await using pair = await startPair();
    const [mine, other] = await twoLeases(pair);
    await pair.b.hold('c', other);
    const leaving = new AbortController();
    const cutOff = acquireAll(
      pair.a,
      mine,
      { names: ['a', 'b', 'c'], waitMs: 20_000 },
      { signal: leaving.signal },
    ).catch((error: unknown) => error);
    await pair.b.untilWaiting('c', 1);
    leaving.abort();
    expect(await cutOff).toBeInstanceOf(Error);
    await eventually('nothing of it is left', async () => {
      const { items } = (await pair.b.expect(200, 'GET', '/v1/locks')) as {
        items: { name: string; waiterCount: number }[];
      };
      return items.length === 1 && items[0]?.name === 'c' && items[0].waiterCount === 0;
    });
  });

  it('leave nothing, not even a place in line, at a replica that shuts down', async () => {
    await using pair = await startPair();
    const draining = await startReplica({ root: pair.root });
    const [mine, other] = await twoLeases(pair);
    await pair.b.hold('c', other);
    const waiting = acquireAll(draining, mine, { names: ['a', 'c'], waitMs: 20_000 });
    await pair.b.untilWaiting('c', 1);
    await draining.gateway.stop();
    const { status, body } = await waiting;
    expect(status).toBe(503);
    expect(body).toMatchObject({ code: 'draining', placeKept: false, outcome: 'not-applied' });
    expect(await heldNames(pair.b, mine)).toEqual([]);
    expect(await pair.a.showLock('c')).toMatchObject({ waiterCount: 0 });
    await draining[Symbol.asyncDispose]();
  });

  it(
    'are never waited for in a circle, whatever their callers name in whatever order',
    { timeout: scaled(60_000) },
    async () => {
      await using pair = await startPair();
      const replicas = [pair.a, pair.b];
      const leases = await Promise.all([0, 1, 2, 3].map((i) => replicas[i % 2]!.createLease({ ttlMs: TTL_MS })));
      const names = fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e'), { minLength: 2, maxLength: 5 });
      const holders = new Map<string, number>();
      await fc.assert(
        fc.asyncProperty(fc.tuple(names, names, names, names), async (wanted) => {
          await Promise.all(
            wanted.map(async (set, caller) => {
              const lease = leases[caller] as LeaseHandle;
              const items = itemsOf(await acquireAll(replicas[caller % 2]!, lease, { names: set, waitMs: 20_000 }));
              for (const { name } of items) {
                expect(holders.get(name), name).toBeUndefined();
                holders.set(name, caller);
              }
              for (const { name, holdId } of items) {
                holders.delete(name);
                expect((await replicas[(caller + 1) % 2]!.release(name, lease, { holdId })).status).toBe(204);
              }
            }),
          );
        }),
        { numRuns: 30 },
      );
    },
  );

  it('need names: at least one, at most a hundred, none twice', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    const many = Array.from({ length: 101 }, (_, i) => `n${i}`);
    for (const body of [{}, { names: [] }, { names: ['a', 'b', 'a'] }, { names: many }, { names: ['a', 'b/c'] }]) {
      const { status, body: problem } = await acquireAll(replica, lease, body);
      expect(status, JSON.stringify(body)).toBe(422);
      expect((problem as { field: string }).field).toMatch(/^names/);
    }
    expect(itemsOf(await acquireAll(replica, lease, { names: many.slice(1) }))).toHaveLength(100);
  });

  it('leave the lock called "acquire" a lock like any other', async () => {
    await using replica = await startReplica();
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await replica.hold('acquire', lease);
    expect(await replica.showLock('acquire')).toMatchObject({ holders: [{ leaseId: lease.leaseId }] });
    const options = await replica.call('OPTIONS', '/v1/locks/acquire');
    expect(options.headers['allow']).toBe('GET, HEAD, OPTIONS, POST');
    expect((await replica.call('DELETE', '/v1/locks/acquire')).status).toBe(405);
  });
});
