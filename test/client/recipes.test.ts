import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Postern, type Job, type PosternError, type PosternOptions } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';

const TTL_MS = 3_000;
/** Ends within a test; a busy machine keeps this process from its next request for some hundred milliseconds. */
const SHORT_MS = scaled(1_000);

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const client = (options: Partial<PosternOptions> = {}): Postern =>
  new Postern({ urls: [pair.a.url, pair.b.url], ttlMs: TTL_MS, ...options });

const codeOf = (error: unknown): unknown => (error as PosternError).code;

test('a read-write lock is shared by readers, and not upgraded', async () => {
  await using postern = client();
  const { read, write, name } = postern.rwlock(randomUUID());
  await read.using({}, () =>
    read.using({}, async (inner) => {
      expect(inner.ok()).toBe(true);
      expect(
        await postern
          .rwlock(name)
          .write.using({}, () => 1)
          .catch(codeOf),
      ).toBe('no-upgrade');
    }),
  );
  const [one, other] = await Promise.all([read.acquire(), read.acquire()]);
  expect(await write.acquire().catch(codeOf)).toBe('lock-held');
  await Promise.all([one.release(), other.release()]);
  await write.using({}, async (writing) => {
    await read.using({}, (reading) => expect(reading).toBe(writing));
    expect(await read.acquire().catch(codeOf)).toBe('lock-held');
  });
});

test('permits are counted, also those of one client', async () => {
  await using postern = client();
  const name = randomUUID();
  const pairOfThem = postern.semaphore(name, { limit: 3, permits: 2 });
  await pairOfThem.using({}, async () => {
    expect((await pairOfThem.show()).permitsHeld).toBe(2);
    expect(await pairOfThem.acquire().catch(codeOf)).toBe('lock-held');
    await postern.semaphore(name).using({}, async () => expect((await pairOfThem.show()).permitsHeld).toBe(3));
  });
  expect(await postern.semaphore(name, { limit: 4 }).acquire().catch(codeOf)).toBe('conflict');
});

test('leads in terms, one program at a time, and resigns when the loop is left', async () => {
  await using one = client();
  await using other = client();
  const name = randomUUID();
  const seen: string[] = [];
  const tokens: number[] = [];
  const lead = async (postern: Postern, value: string): Promise<void> => {
    let terms = 0;
    for await (const term of postern.election(name).terms({ value })) {
      seen.push(value);
      tokens.push(term.fencingToken);
      await term.proclaim(`${value}!`);
      await term.acknowledge();
      expect((await pair.b.expect(200, 'GET', `/v1/elections/${name}`)).leader).toMatchObject({
        value: `${value}!`,
        acknowledged: true,
      });
      if ((terms += 1) === 2) break;
      // Both stand by now, so that this one is behind the other when it stands again.
      await eventually('two stand', async () => (await postern.election(name).show()).candidateCount === 2);
    }
  };
  await Promise.all([lead(one, 'one'), lead(other, 'other')]);
  expect(seen.filter((value) => value === 'one')).toHaveLength(2);
  expect(seen).toHaveLength(4);
  expect(tokens).toEqual([...tokens].sort((first, second) => first - second));
  expect((await one.election(name).show()).candidateCount).toBe(0);
});

test('of those who wait, a program that is preferred more leads next', async () => {
  await using leader = client();
  await using low = client();
  await using high = client();
  const name = randomUUID();
  const stand = async (postern: Postern, value: string, preference?: number) =>
    postern.election(name).campaign({ value, ...(preference !== undefined && { preference }) });
  const shown = async () => (await leader.election(name).show()).candidates.map(({ value }) => value);
  const first = await stand(leader, 'first');
  const last = stand(low, 'low');
  await eventually('two stand', async () => (await shown()).length === 2);
  const next = stand(high, 'high', 1_000);
  await eventually('it is the next', async () => (await shown())[1] === 'high');
  await first.resign();
  const second = await next;
  await second.resign();
  expect((await last).fencingToken).toBeGreaterThan(second.fencingToken);
  expect(await shown()).toEqual(['low']);
});

test('of those who wait for a lock by priority, the highest is granted next', async () => {
  await using postern = client();
  await using other = client();
  const name = randomUUID();
  const shown = async () => (await other.lock(name).show()).waiters.map(({ priority }) => priority);
  const first = await postern.lock(name).acquire({ priority: 3 });
  const low = postern.lock(name).acquire({ priority: 2, waitMs: 60_000 });
  await eventually('one waits', async () => (await shown()).length === 1);
  const high = other.lock(name).using({ priority: 7, waitMs: 60_000 }, ({ fencingToken }) => fencingToken);
  await eventually('it is the next', async () => (await shown())[0] === 7);
  await first.release();
  const token = await high;
  const last = await low;
  expect(last.fencingToken).toBeGreaterThan(token);
  await last.release();
  await expect(postern.lock(name).acquire()).rejects.toMatchObject({ code: 'conflict' });
});

test('a term that is revoked is over, and the program stands again', async () => {
  await using postern = client({ ttlMs: SHORT_MS });
  const name = randomUUID();
  const causes: unknown[] = [];
  for await (const term of postern.election(name).terms()) {
    if (causes.length === 1) break;
    await pair.a.expect(200, 'POST', `/v1/elections/${name}/revoke`, { body: {} });
    await eventually('it is told', () => term.signal.aborted);
    causes.push((term.signal.reason as { cause: string }).cause);
  }
  expect(causes).toEqual(['revoked']);
});

test('a worker does as many jobs at once as it may, and none is lost when some fail', async () => {
  await using postern = client();
  const queue = postern.queue(randomUUID());
  await queue.pushAll(Array.from({ length: 20 }, (_, n) => ({ body: { n } })));
  const tired = new AbortController();
  const done: number[] = [];
  const failures: string[] = [];
  let atOnce = 0;
  let most = 0;
  const work = async (job: Job): Promise<void> => {
    most = Math.max(most, (atOnce += 1));
    const { n } = job.body as { n: number };
    await eventually('so many are done at once', () => most === 4);
    atOnce -= 1;
    if (n % 5 === 0 && job.message.deliveries === 1) throw new Error(`no ${n}`);
    if (done.push(n) === 20) tired.abort();
  };
  const onFailure = (error: unknown): void => void failures.push((error as Error).message);
  for await (const job of queue.jobs({ concurrency: 4, signal: tired.signal, onFailure })) await job.done(work(job));
  expect(new Set(done).size).toBe(20);
  expect(most).toBe(4);
  expect(failures.sort()).toEqual(['no 0', 'no 10', 'no 15', 'no 5']);
  expect(await queue.show()).toMatchObject({ depth: 0, claimed: 0 });
});

test('jobs that a loop had not handed out are given back when it is left', async () => {
  await using postern = client();
  const queue = postern.queue(randomUUID());
  await queue.pushAll([{ body: 1 }, { body: 2 }, { body: 3 }]);
  for await (const job of queue.jobs({ concurrency: 3 })) {
    expect(job.body).toBe(1);
    await job.ack();
    expect(() => job.nack()).toThrow('settled before');
    break;
  }
  await eventually('the others are back', async () => (await queue.show()).claimed === 0);
  expect((await queue.show()).depth).toBe(2);
});

test('a job whose claim is over cannot be acknowledged', async () => {
  await using postern = client();
  const queue = postern.queue(randomUUID());
  await queue.push('late');
  for await (const job of queue.jobs({ claimMs: 200 })) {
    await eventually('the claim is over', async () => (await queue.show()).claimed === 0);
    expect(await job.ack().catch(codeOf)).toBe('not-holder');
    break;
  }
  for await (const job of queue.jobs({ claimMs: SHORT_MS })) {
    const over = performance.now() + 1.5 * SHORT_MS;
    await job.extend(60_000);
    expect(job.message.deliveries).toBe(2);
    await eventually('its first time is over', () => performance.now() > over);
    await job.ack();
    break;
  }
  expect((await queue.show()).depth).toBe(0);
});

test('a push that is repeated adds nothing', async () => {
  await using postern = client();
  const queue = postern.queue(randomUUID());
  const first = await queue.push({ to: 'ada' }, { messageId: 'mail-1', attributes: { lang: 'en' } });
  const second = await queue.push({ to: 'ada' }, { messageId: 'mail-1' });
  expect(second).toEqual({ id: first.id, duplicate: true });
  expect((await queue.show()).depth).toBe(1);
});

test('members are seen while they are there', async () => {
  await using postern = client();
  const group = postern.group(randomUUID());
  const seen: unknown[] = [];
  const over = new AbortController();
  const watching = (async () => {
    for await (const { members } of group.observe({ signal: over.signal }))
      seen.push(members.map(({ member, value }) => [member, value]));
  })();
  await eventually('nobody is there', () => seen.length === 1);
  const membership = await group.join({ member: 'worker-7', value: 1 });
  await eventually('it joined', () => seen.length === 2);
  await membership.update(2);
  await eventually('it changed', () => seen.length === 3);
  await membership.leave();
  await eventually('it left', () => seen.length === 4);
  over.abort();
  await watching;
  expect(seen).toEqual([[], [['worker-7', 1]], [['worker-7', 2]], []]);
});

test('messages to a group are read in their order, from a cursor on, and those that were dropped are said to be', async () => {
  await using postern = client();
  const group = postern.group(randomUUID());
  const cursor = await group.cursor();
  const first = await group.post({ reload: 'rates' }, { requestId: 'r1' });
  expect(await group.post({ reload: 'rates' }, { requestId: 'r1' })).toBe(first);
  const second = await group.post('second');
  const over = new AbortController();
  const seen: unknown[] = [];
  const listening = (async () => {
    for await (const { number, body, missed } of group.messages({ after: cursor, signal: over.signal }))
      seen.push([number, body, missed]);
  })();
  await eventually('both are read', () => seen.length === 2);
  const third = await group.post('third');
  await eventually('the third is read', () => seen.length === 3);
  over.abort();
  await listening;
  expect(seen).toEqual([
    [first, { reload: 'rates' }, false],
    [second, 'second', false],
    [third, 'third', false],
  ]);
  for await (const { body, missed } of group.messages({ after: 0 })) {
    expect([body, missed]).toEqual([{ reload: 'rates' }, false]);
    break;
  }
});

test('several keys are read at one moment, and listed with their values and without', async () => {
  await using postern = client();
  const { config } = postern;
  const prefix = `together/${randomUUID()}/`;
  const [host, bytes, broken, none] = ['host', 'bytes', 'broken', 'none'].map((name) => prefix + name) as [
    string,
    string,
    string,
    string,
  ];
  await config.write([
    { put: host, value: { host: 'db1' } },
    { put: bytes, valueBase64: 'AP8=' },
    { put: broken, valueBase64: 'ew==', contentType: 'application/json' },
  ]);
  const found = await config.readMany([host, none, bytes, broken]);
  expect(found.map((one) => one?.value)).toEqual([{ host: 'db1' }, undefined, Buffer.from([0, 255]), Buffer.from('{')]);
  expect(found[0]).toEqual(await config.get(host));
  expect(found[2]).toEqual(await config.get(bytes));
  expect(found[3]).toEqual(await config.get(broken));
  await config.put(host, 2, { ifMatch: found[0]?.etag ?? '' });
  expect(await config.put(host, 3, { ifMatch: found[0]?.etag ?? '' }).catch(codeOf)).toBe('version-mismatch');
  await config.write(Array.from({ length: 70 }, (_, i) => ({ put: `${prefix}many/${i}`, value: i })));
  const listed = [];
  for await (const one of config.list({ prefix: `${prefix}many/`, values: true })) listed.push(one);
  expect(listed.map(({ key, value }) => [key, value])).toHaveLength(70);
  for (const { key, value, etag } of listed) expect(await config.get(key)).toMatchObject({ value, etag });
  const plain = [];
  for await (const one of config.list({ prefix: host })) plain.push(one);
  expect(plain).toEqual([
    { key: host, etag: (await config.get(host))?.etag, contentType: 'application/json', bytes: 1 },
  ]);
  expect(await config.readMany([host, host]).catch(codeOf)).toBe('invalid');
});

test('a key is put, read, watched and deleted, with conditions and a guard', async () => {
  await using postern = client();
  const { config } = postern;
  const key = `app/${randomUUID()}`;
  const over = new AbortController();
  const seen: unknown[] = [];
  const watching = (async () => {
    for await (const entry of config.watch(key, { signal: over.signal })) seen.push(entry?.value);
  })();
  await eventually('there is none', () => seen.length === 1);
  const etag = await config.put(key, { host: 'db1' }, { ifAbsent: true });
  await eventually('it is there', () => seen.length === 2);
  expect(await config.put(key, 1, { ifAbsent: true }).catch(codeOf)).toBe('version-mismatch');
  expect(await config.get(key)).toEqual({ key, value: { host: 'db1' }, etag, contentType: 'application/json' });
  const hold = await postern.lock(key.replace('/', '-')).acquire();
  await config.put(key, Buffer.from([0, 255]), { ifMatch: etag, guard: hold });
  await eventually('it changed', () => seen.length === 3);
  await hold.release();
  expect(await config.put(key, 3, { guard: hold }).catch(codeOf)).toBe('fencing-token-stale');
  expect(await config.write([{ check: key }, { put: `${key}/more`, value: 1 }])).toHaveLength(2);
  expect(await config.delete(key)).toBe(true);
  expect(await config.delete(key)).toBe(false);
  await eventually('it is gone', () => seen.length === 4);
  over.abort();
  await watching;
  expect(seen).toEqual([undefined, { host: 'db1' }, Buffer.from([0, 255]), undefined]);
});

test('a barrier that was lifted and raised again while nobody answered has been lifted', async () => {
  const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
  await using postern = client({ urls: [`http://${proxy.connectString}`] });
  const barrier = client().barrier(randomUUID());
  await barrier.raise();
  const before = proxy.counters.accepted;
  const waiting = postern.barrier(barrier.name).wait({ waitMs: 20_000 });
  await eventually('it waits', () => pair.a.gateway.observed() > 0 && proxy.counters.accepted > before);
  proxy.refuse();
  proxy.cut();
  await barrier.lift();
  await barrier.raise();
  proxy.accept();
  expect(await waiting).toBe(true);
  await barrier.lift();
  await proxy.stop();
});

test('counters count, barriers hold, double barriers gather', async () => {
  await using one = client();
  await using other = client();
  const latch = randomUUID();
  const counter = one.counter(latch);
  expect(await counter.add()).toBe(1);
  expect(await counter.add(4)).toBe(5);
  await counter.set(0, { expected: 5 });
  expect(await counter.set(1, { expected: 5 }).catch(codeOf)).toBe('version-mismatch');
  expect(await counter.get()).toBe(0);
  expect(await counter.wait({ atLeast: 2, waitMs: 50 })).toBe(false);
  const reached = counter.wait({ atLeast: 2 });
  await other.counter(latch).add(2);
  expect(await reached).toBe(true);

  const barrier = one.barrier(randomUUID());
  expect(await barrier.wait()).toBe(true);
  await barrier.raise();
  expect(await barrier.wait({ waitMs: 100 })).toBe(false);
  const waiting = barrier.wait();
  await barrier.lift();
  expect(await waiting).toBe(true);

  const name = randomUUID();
  expect(await one.doubleBarrier(name).enter({ size: 2, waitMs: 100 }).catch(codeOf)).toBe('timeout');
  const entered = await Promise.all([one, other].map((postern) => postern.doubleBarrier(name).enter({ size: 2 })));
  expect(await pair.a.expect(200, 'GET', `/v1/double-barriers/${name}`)).toMatchObject({
    entered: true,
    memberCount: 2,
  });
  await Promise.all(entered.map((hold) => hold.release()));
  expect(await pair.a.expect(200, 'GET', `/v1/double-barriers/${name}`)).toMatchObject({ memberCount: 0 });
});

test('a lock is reserved in order of arrival, and its token serves another program', async () => {
  await using one = client();
  await using other = client();
  const name = randomUUID();
  const hold = await one.lock(name).acquire();
  const reserving = other.lock(name).reserve({ forMs: 600_000, owner: 'ann', reason: 'release', waitMs: 60_000 });
  await eventually('it waits', async () => (await one.lock(name).show()).waiterCount === 1);
  await hold.release();
  const { reservationToken, reservedUntil } = await reserving;
  expect((await one.lock(name).show()).holders).toMatchObject([
    { reservation: { owner: 'ann', until: reservedUntil } },
  ]);
  expect(await one.lock(name).reserve({ forMs: 60_000, owner: 'bob' }).catch(codeOf)).toBe('lock-held');
  const extended = await one.lock(name).extendReservation(reservationToken, 900_000);
  expect(Date.parse(extended.reservedUntil)).toBeGreaterThan(Date.parse(reservedUntil));
  await one.lock(name).releaseReservation(reservationToken);
  expect(await one.lock(name).releaseReservation(reservationToken).catch(codeOf)).toBe('not-holder');
  await (await one.lock(name).acquire()).release();
});
