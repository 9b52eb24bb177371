/** Locks by priority: the order of those who wait, and what is like at any other lock. */
import { expect, test } from 'vitest';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const WAIT = { waitMs: 50_000 };

function leaseFor(replica: Replica, label = ''): Promise<LeaseHandle> {
  return replica.createLease({ ttlMs: 20_000, label });
}

/** The priorities of those who wait, in the order in which they are shown. */
async function queue(replica: Replica, name: string): Promise<unknown[]> {
  return ((await replica.showLock(name)).waiters as { priority?: number }[]).map(({ priority }) => priority);
}

/** Waits one after the other, at the two replicas in turns, each releasing what it was granted. */
async function waitInTurn({ a, b }: Pair, name: string, priorities: readonly number[]): Promise<Promise<Reply>[]> {
  const waits: Promise<Reply>[] = [];
  for (const [i, priority] of priorities.entries()) {
    const replica = [a, b][i % 2]!;
    const lease = await leaseFor(replica, `${i}`);
    const release = async (reply: Reply): Promise<Reply> => {
      expect((await replica.release(name, lease, { holdId: reply.body.holdId })).status).toBe(204);
      return reply;
    };
    waits.push(replica.acquire(name, lease, { ...WAIT, priority }).then(release));
    await a.untilWaiting(name, i + 1);
  }
  return waits;
}

test('who waits is granted by priority, first come first among equals, over both replicas (C94)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const holder = await leaseFor(a);
  await a.hold('ranked', holder, { priority: 0 });
  const priorities = [0, 5, 10, 5, 0, 10];
  const waits = await waitInTurn(pair, 'ranked', priorities);
  const order = [2, 5, 1, 3, 0, 4];
  expect(await queue(b, 'ranked')).toEqual(order.map((i) => priorities[i]));
  const { items } = (await b.expect(200, 'GET', '/v1/locks/ranked/waiters?limit=3')) as { items: unknown[] };
  expect(items).toMatchObject([
    { label: '2', priority: 10, position: 1 },
    { label: '5', priority: 10, position: 2 },
    { label: '1', priority: 5, position: 3 },
  ]);
  await b.release('ranked', holder);
  const tokens = (await Promise.all(waits)).map(({ status, body }) => (expect(status).toBe(200), body.fencingToken));
  expect(order.map((i) => tokens[i] as number)).toEqual(tokens.toSorted((x, y) => x - y));
  expect(await b.showLock('ranked')).toMatchObject({ holders: [], waiterCount: 0 });
});

test(
  'who comes later with a higher priority passes a bounded number of times, and no holder is interrupted (C95)',
  async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const holder = await leaseFor(a);
    await a.hold('bounded', holder, { priority: 0 });
    const low = await leaseFor(a);
    const waiting = a.acquire('bounded', low, { ...WAIT, priority: 9 });
    await a.untilWaiting('bounded', 1);
    // Each takes a number in the room: a hundred that come and go are as good as a step of priority.
    const passer = await leaseFor(b);
    const come = (priority: number): Promise<Reply> => b.acquire('bounded', passer, { priority, keepPlace: true });
    for (let i = 0; i < 98; i += 1) {
      expect((await come(10)).status).toBe(202);
      expect((await b.release('bounded', passer)).status).toBe(204);
    }
    expect((await come(10)).body).toMatchObject({ position: 1 });
    await b.release('bounded', passer);
    expect((await come(10)).body).toMatchObject({ position: 2 });
    expect(await queue(a, 'bounded')).toEqual([9, 10]);
    await b.release('bounded', passer);
    await a.release('bounded', holder);
    expect((await waiting).status).toBe(200);
  },
  scaled(60_000),
);

test('a repeated request has the same place, then the same hold, at either replica', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, lease] = [await leaseFor(a), await leaseFor(a)];
  await a.hold('again', holder, { priority: 3 });
  expect(await b.hold('again', holder, { priority: 3 })).toMatchObject({ alreadyHeld: true });
  for (const replica of [a, b, a])
    expect(await replica.acquire('again', lease, { priority: 4, keepPlace: true })).toMatchObject({
      status: 202,
      body: { position: 1 },
    });
  expect(await queue(b, 'again')).toEqual([4]);
  for (const priority of [5, 3]) {
    const other = await a.acquire('again', lease, { priority, keepPlace: true });
    expect([other.status, other.body]).toMatchObject([409, { code: 'conflict' }]);
    expect(await queue(b, 'again')).toEqual([4]);
  }
  await a.release('again', holder);
  expect(await a.showLock('again')).toMatchObject({ holders: [], waiterCount: 1 });
  const first = await b.hold('again', lease, { priority: 4, keepPlace: true });
  expect(first.alreadyHeld).toBe(false);
  expect(await a.hold('again', lease, { priority: 4 })).toMatchObject({
    holdId: first.holdId,
    fencingToken: first.fencingToken,
    alreadyHeld: true,
  });
  expect(
    (await a.call('POST', '/v1/locks/again/check', { body: { fencingToken: first.fencingToken } })).body,
  ).toMatchObject({ current: true });
  expect((await a.release('again', lease)).status).toBe(204);
  expect((await a.release('again', lease)).status).toBe(409);
});

test('a wait that ends keeps or gives up its place as at any lock, and says who holds', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, lease] = [await leaseFor(a, 'holds'), await leaseFor(b)];
  await a.hold('ends', holder, { priority: 0 });
  for (const waitMs of [0, 200]) {
    const refused = await b.acquire('ends', lease, { priority: 10, waitMs });
    expect([refused.status, refused.body]).toMatchObject([
      409,
      { code: 'lock-held', position: 1, holder: { label: 'holds' } },
    ]);
    expect(await queue(a, 'ends')).toEqual([]);
  }
  const kept = await b.acquire('ends', lease, { priority: 10, waitMs: 200, keepPlace: true });
  expect([kept.status, kept.body]).toMatchObject([202, { position: 1 }]);
  expect(await queue(a, 'ends')).toEqual([10]);
  const { holds } = (await b.showLease(lease)).body as { holds: unknown[] };
  expect(holds).toMatchObject([{ kind: 'lock', name: 'ends', held: false }]);
  expect((await b.release('ends', lease)).status).toBe(204);
  expect(await queue(a, 'ends')).toEqual([]);

  // A client that goes away takes its place with it.
  const gone = new AbortController();
  const waiting = b.acquire('ends', lease, { ...WAIT, priority: 1 }, { signal: gone.signal });
  waiting.catch(() => undefined);
  await a.untilWaiting('ends', 1);
  gone.abort();
  await eventually('its place is gone', async () => (await queue(a, 'ends')).length === 0);
});

test(
  'a place that nobody asks for any more is passed, first in the room or in the line',
  async () => {
    await using pair = await startPair();
    const { a, b } = pair;
    const [holder, left, waits] = [await leaseFor(a), await leaseFor(a), await leaseFor(b)];
    await a.hold('left', holder, { priority: 0 });
    expect((await a.acquire('left', left, { priority: 9, keepPlace: true })).status).toBe(202);
    const waiting = b.acquire('left', waits, { ...WAIT, priority: 1 });
    await a.untilWaiting('left', 2);
    await a.release('left', holder);
    expect((await waiting).status).toBe(200);
  },
  scaled(60_000),
);

test('a lease that ends, through whichever replica, ends its wait with 410, and frees what it had', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, first, second] = [await leaseFor(a), await leaseFor(a), await leaseFor(b)];
  await a.hold('lease', holder, { priority: 0 });
  const waits = [
    a.acquire('lease', first, { ...WAIT, priority: 2 }),
    a.acquire('lease', second, { ...WAIT, priority: 1 }),
  ];
  await a.untilWaiting('lease', 2);
  const began = performance.now();
  await b.endLease(first);
  expect((await waits[0])!.status).toBe(410);
  expect(performance.now() - began).toBeLessThan(scaled(5_000));
  expect(await queue(b, 'lease')).toEqual([1]);
  await b.endLease(holder);
  expect((await waits[1])!.status).toBe(200);
});

test('a lock is taken by priority or in order of arrival: the other is refused by name', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [one, two] = [await leaseFor(a), await leaseFor(b)];
  await a.hold('by-priority', one, { priority: 0 });
  for (const body of [{}, WAIT, { keepPlace: true }, { lockDelayMs: 1_000, waitMs: 100 }]) {
    const refused = await b.acquire('by-priority', two, body);
    expect([refused.status, refused.body]).toMatchObject([409, { code: 'conflict', retryable: false }]);
    expect(refused.body.detail).toContain('"by-priority" is taken by priority');
  }
  const many = await b.call('POST', '/v1/locks/acquire', { body: { names: ['by-priority', 'x'] }, ...two });
  expect([many.status, many.body.code]).toEqual([409, 'conflict']);
  await a.release('by-priority', one);
  const free = await b.acquire('by-priority', two);
  expect([free.status, free.body.code]).toEqual([409, 'conflict']);
  expect(await a.showLock('by-priority')).toMatchObject({ holders: [], waiterCount: 0, byPriority: true });

  await b.hold('by-arrival', two);
  const refused = await a.acquire('by-arrival', one, { priority: 10, waitMs: 1_000 });
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'conflict', retryable: false }]);
  expect(refused.body.detail).toContain('"by-arrival" is in use in order of arrival');
  expect(await a.showLock('by-arrival')).not.toHaveProperty('byPriority');
  await b.release('by-arrival', two);
  expect(await a.hold('by-arrival', one, { priority: 10 })).toMatchObject({ alreadyHeld: false });
});

test('a place in the room is one of those that its lease may have, and goes into the line as that one', async () => {
  await using replica = await startReplica({ settings: { POSTERN_MAX_HOLDS_PER_LEASE: '2' } });
  const [holder, lease] = [await leaseFor(replica), await leaseFor(replica)];
  await replica.hold('full', holder, { priority: 0 });
  await replica.hold('other', lease);
  const waiting = replica.acquire('full', lease, { ...WAIT, priority: 1 });
  await replica.untilWaiting('full', 1);
  const third = await replica.acquire('third', lease, { priority: 1 });
  expect([third.status, third.body.code]).toEqual([409, 'too-many-holds']);
  await replica.release('full', holder);
  expect((await waiting).status).toBe(200);
});

test('what does not go together with a priority, or is none, is refused', async () => {
  await using replica = await startReplica();
  const lease = await leaseFor(replica);
  const refusals = [
    [{ priority: 1, lockDelayMs: 1_000 }, 'lockDelayMs'],
    ...[-1, 11, 0.5, '1', null].map((priority) => [{ priority }, 'priority'] as const),
  ] as const;
  for (const [body, field] of refusals) {
    const refused = await replica.acquire('refused', lease, body);
    expect([refused.status, refused.body]).toMatchObject([422, { code: 'invalid' }]);
    expect(refused.body.detail).toContain(field);
  }
  const requestId = '5f0c9a52-7c1e-4a0b-9d52-3b8f1e6a7c90';
  const oneCall = await replica.acquire('refused', undefined, { priority: 1, lease: { ttlMs: 20_000 }, requestId });
  expect([oneCall.status, oneCall.body]).toMatchObject([422, { code: 'invalid' }]);
  expect(oneCall.body.detail).toContain('lease');
  for (const path of ['/v1/locks/acquire', '/v1/rwlocks/refused/acquire', '/v1/semaphores/refused/acquire'])
    expect((await replica.call('POST', path, { body: { priority: 1 }, ...lease })).status).toBe(422);
  expect(await replica.showLock('refused')).toMatchObject({ holders: [], waiterCount: 0 });
});

test('the list of locks shows one for which all wait in the room, and since when the longest does', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const holder = await leaseFor(a);
  await a.hold('listed', holder, { priority: 0 });
  for (const priority of [1, 9]) {
    const lease = await leaseFor(b);
    expect((await b.acquire('listed', lease, { priority, keepPlace: true })).status).toBe(202);
  }
  const listed = async (): Promise<unknown> =>
    ((await b.expect(200, 'GET', '/v1/locks')) as { items: unknown[] }).items;
  const waiters = (await b.showLock('listed')).waiters as { since: string }[];
  const oldestWaitSince = waiters[1]!.since;
  expect(oldestWaitSince < waiters[0]!.since).toBe(true);
  expect(await listed()).toMatchObject([{ name: 'listed', holderCount: 1, waiterCount: 2, oldestWaitSince }]);
  await a.release('listed', holder);
  expect(await listed()).toMatchObject([{ name: 'listed', holderCount: 0, waiterCount: 2, oldestWaitSince }]);
});

test('a directory that another program has written an address into is not one by priority', async () => {
  await using replica = await startReplica();
  const { control, layout } = replica.gateway.context;
  const directory = layout.line('lock', 'default', 'foreign');
  await control.ensurePath(directory.slice(0, directory.lastIndexOf('/')));
  await control.create(directory, Buffer.from('192.168.1.100'));
  const lease = await leaseFor(replica);
  expect(await replica.hold('foreign', lease)).toMatchObject({ alreadyHeld: false });
});
