/** `downgrade` of the client: what was a writer's is a reader's, whatever became of the answers. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HoldLostError, Postern, type PosternOptions, type ReadWriteLock } from '../../src/client/index.js';
import { eventually, throughout } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { startTcpProxy, type TcpProxy } from '../support/zookeeper/tcp-proxy.js';

/** No heartbeat is due within a test, so that requests are what the faults meet. */
const TTL_MS = 120_000;
const DOWNGRADABLE = { downgradable: true };

let pair: Pair;
let proxy: TcpProxy;
beforeAll(async () => {
  pair = await startPair();
  proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
});
afterAll(async () => {
  await proxy.stop();
  await pair[Symbol.asyncDispose]();
});

const client = (options: Partial<PosternOptions> = {}): Postern =>
  new Postern({ urls: [pair.b.url], ttlMs: TTL_MS, ...options });

/** Of a client that asks through the proxy. */
const throughProxy = (options: Partial<PosternOptions> = {}): Postern =>
  client({ urls: [`http://${proxy.connectString}`], ...options });

async function modes(lock: ReadWriteLock): Promise<unknown[]> {
  return (await lock.show()).holders.map(({ mode }) => mode);
}

/** @returns what was asked, when it is done and its answer is held back */
async function unanswered<T>(lock: ReadWriteLock, ask: () => Promise<T>): Promise<Promise<T>[]> {
  proxy.pause('fromZooKeeper');
  const asked = ask();
  asked.catch(() => undefined);
  await eventually('it is a reader', async () => (await modes(lock))[0] === 'read');
  return [asked];
}

test('lets readers in and no writer, keeps its token, and is released as what it has become', async () => {
  await using postern = client();
  await using others = client();
  const lock = others.rwlock(randomUUID());
  const writing = await postern.rwlock(lock.name).write.acquire(DOWNGRADABLE);
  const reader = lock.read.acquire({ waitMs: Infinity });
  await eventually('a reader waits', async () => (await lock.show()).waiterCount === 1);
  let written = false;
  const writer = lock.write.acquire({ waitMs: Infinity }).finally(() => (written = true));
  await eventually('a writer waits', async () => (await lock.show()).waiterCount === 2);
  const [reading, same] = await Promise.all([writing.downgrade(), writing.downgrade()]);
  expect(same).toBe(reading);
  expect(reading).toMatchObject({ kind: 'rwlock', name: lock.name, fencingToken: writing.fencingToken });
  expect(reading.holdId).not.toBe(writing.holdId);
  expect([writing.ok(), reading.ok()]).toEqual([false, true]);
  expect(() => writing.assertHeld()).toThrow(HoldLostError);
  expect(await writing.downgrade()).toBe(reading);
  await (await reader).release();
  await writing.release();
  await throughout('the reader that wrote keeps the writer out', () => !written && reading.ok());
  await reading.release();
  expect((await writer).fencingToken).toBeGreaterThan(reading.fencingToken);
  expect([writing.signal.aborted, reading.signal.aborted]).toEqual([false, false]);
});

test('is found again when its answer is lost', async () => {
  await using postern = throughProxy();
  await using others = client();
  const lock = others.rwlock(randomUUID());
  const writing = await postern.rwlock(lock.name).write.acquire(DOWNGRADABLE);
  const [asked] = await unanswered(lock, () => writing.downgrade());
  proxy.cut();
  proxy.resume();
  const reading = await asked;
  expect(reading).toMatchObject({ fencingToken: writing.fencingToken });
  expect((await lock.show()).holders).toMatchObject([{ mode: 'read', holdId: reading?.holdId }]);
});

test.each(['asked for again', 'released'] as const)(
  'counts as gone while nobody answers, and is then %s',
  async (how) => {
    await using postern = throughProxy({ patienceMs: 0 });
    await using others = client();
    const lock = others.rwlock(randomUUID());
    const writing = await postern.rwlock(lock.name).write.acquire(DOWNGRADABLE);
    const [asked] = await unanswered(lock, () => writing.downgrade());
    expect(writing.ok()).toBe(false);
    proxy.refuse();
    proxy.cut();
    await expect(asked).rejects.toMatchObject({ code: 'unreachable', outcome: 'unknown' });
    proxy.heal();
    expect([writing.ok(), writing.signal.aborted]).toEqual([false, false]);
    if (how === 'asked for again') await (await writing.downgrade()).release();
    else await writing.release();
    expect((await lock.show()).holderCount).toBe(0);
    if (how === 'released') await expect(writing.downgrade()).rejects.toThrow('has been given back');
  },
);

test('is refused without downgradable, and while somebody asks for it; it is a writer as before', async () => {
  await using postern = client();
  const lock = postern.rwlock(randomUUID());
  const plain = await lock.write.acquire();
  await expect(plain.downgrade()).rejects.toMatchObject({ code: 'conflict', outcome: 'not-applied' });
  expect(plain.ok()).toBe(true);
  await plain.release();
  const writing = await lock.write.acquire({ ...DOWNGRADABLE, onRevoke: () => undefined });
  await pair.b.expect(200, 'POST', `/v1/rwlocks/${lock.name}/revoke`, { body: { graceMs: TTL_MS } });
  await expect(writing.downgrade()).rejects.toMatchObject({ code: 'conflict', outcome: 'not-applied' });
  expect(writing.ok()).toBe(true);
  expect(await modes(lock)).toEqual(['write']);
  await writing.release();
  expect(await lock.show()).toMatchObject({ holderCount: 0, waiterCount: 0 });
});

test.each(['free', 'held by another writer'])(
  'is no hold when it was broken before, and the lock is %s',
  async (how) => {
    await using postern = client();
    await using others = client();
    const lock = others.rwlock(randomUUID());
    const writing = await postern.rwlock(lock.name).write.acquire(DOWNGRADABLE);
    await pair.a.expect(200, 'POST', `/v1/rwlocks/${lock.name}/revoke`, { body: { graceMs: 0 } });
    if (how !== 'free') await lock.write.acquire();
    const before = (await lock.show()).holderCount;
    const asked = await writing.downgrade().catch((error: unknown) => error);
    expect(asked).toBeInstanceOf(HoldLostError);
    expect(asked).toMatchObject({ cause: 'lost' });
    expect(writing.ok()).toBe(false);
    await eventually('nothing of it stays', async () => {
      const { holderCount, waiterCount } = await lock.show();
      return holderCount === before && waiterCount === 0;
    });
  },
);

test('is lost with its lease, as a reader too', async () => {
  const postern = client();
  const writing = await postern.rwlock(randomUUID()).write.acquire(DOWNGRADABLE);
  const reading = await writing.downgrade();
  await postern.close();
  expect(reading.signal.reason).toMatchObject({ cause: 'closed' });
  expect(writing.signal.aborted).toBe(false);
  await expect(writing.downgrade()).resolves.toBe(reading);
});
