/** `GET /v1/contention`: where requests wait in one replica. */
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { startPair } from '../../support/start-gateway.js';

interface Item {
  kind: string;
  name: string;
  waiting: number;
  oldestWaitMs: number;
  waits: number;
  meanWaitMs: number;
  longestWaitMs: number;
}

describe('contention', () => {
  test('names what is waited for here, the longest line first, and remembers it when the waits are over', async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const contended = async (gateway: typeof a): Promise<Item[]> =>
      (await gateway.call('GET', '/v1/contention')).body.items as Item[];
    expect(await contended(a)).toEqual([]);
    const holder = await a.createLease();
    await a.hold('busy', holder);
    await a.hold('quiet', holder);
    const waiters = await Promise.all([1, 2, 3].map(() => a.createLease()));
    const waits = [
      ...waiters.slice(0, 2).map((lease) => a.acquire('busy', lease, { waitMs: 20_000 })),
      a.acquire('quiet', waiters[2], { waitMs: 20_000 }),
      a.call('POST', '/v1/queues/idle/pop', { body: { waitMs: 400 } }),
    ];
    await eventually('all wait', async () => (await contended(a)).reduce((sum, { waiting }) => sum + waiting, 0) >= 3);
    const [first, ...others] = await contended(a);
    expect(first).toMatchObject({ kind: 'lock', name: 'busy', waiting: 2, waits: 0 });
    expect(others.find(({ name }) => name === 'quiet')).toMatchObject({ kind: 'lock', waiting: 1 });
    expect(await contended(b)).toEqual([]);
    expect((await a.call('GET', '/v1/contention?top=1')).body.items).toHaveLength(1);
    for (const name of ['busy', 'quiet']) await a.release(name, holder);
    await a.release('busy', waiters[0] as (typeof waiters)[number]).catch(() => undefined);
    await eventually('the first has it', async () => {
      for (const lease of waiters.slice(0, 2)) await a.release('busy', lease).catch(() => undefined);
      return (await contended(a)).every(({ waiting }) => waiting === 0);
    });
    await Promise.all(waits);
    const after = await contended(a);
    const busy = after.find(({ name }) => name === 'busy') as Item;
    expect(busy).toMatchObject({ waiting: 0, oldestWaitMs: 0, waits: 2 });
    expect(busy.longestWaitMs).toBeGreaterThanOrEqual(busy.meanWaitMs);
  });

  test('is of one namespace', async () => {
    await using pair = await startPair();
    const { a } = pair;
    const other = { headers: { Namespace: 'other' } };
    const waiting = a.call('POST', '/v1/queues/there/pop', { body: { waitMs: 20_000 }, ...other });
    // An unknown queue is waited for without a queue; one that is there counts.
    await a.call('POST', '/v1/queues/there/messages', { body: { messages: [{ body: 1 }] }, ...other });
    expect((await waiting).status).toBe(200);
    await a.call('POST', '/v1/queues/there/pop', { body: { waitMs: 50 }, ...other });
    expect((await a.call('GET', '/v1/contention')).body.items).toEqual([]);
    expect((await a.call('GET', '/v1/contention', other)).body.items).toMatchObject([{ kind: 'queue', name: 'there' }]);
  });

  test('refuses a number out of range', async () => {
    await using pair = await startPair();
    expect((await pair.a.call('GET', '/v1/contention?top=0')).body).toMatchObject({ code: 'invalid', field: 'top' });
  });
});
