/** `postern.run`: of each occurrence the work is done once, by whoever has the attempt. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  HoldLostError,
  Postern,
  type Attempt,
  type PosternError,
  type PosternOptions,
} from '../../src/client/index.js';
import { eventually, throughout } from '../support/eventually.js';
import { expireSession, startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';

const TTL_MS = 3_000;
/** Renewed many times; a busy machine keeps this process from its heartbeats for some hundred milliseconds. */
const SHORT_MS = scaled(1_000);

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

const client = (options: Partial<PosternOptions> = {}): Postern =>
  new Postern({ urls: [pair.a.url, pair.b.url], ttlMs: TTL_MS, ...options });

const codeOf = (error: unknown): unknown => (error as PosternError).code;

async function begun(postern: Postern, name: string, occurrence = 'monday'): Promise<Attempt> {
  const attempt = await postern.run(name).start({ occurrence });
  if (!attempt.started) throw new Error(`refused: ${JSON.stringify(attempt)}`);
  return attempt;
}

test('of many that ask, in several programs and within one, one does the work, and the others are told', async () => {
  await using one = client({ label: 'one' });
  await using other = client({ label: 'other' });
  const name = randomUUID();
  const tokens: number[] = [];
  const work = async ({ fencingToken, signal, attempt }: Attempt): Promise<string> => {
    tokens.push(fencingToken);
    expect([signal.aborted, attempt]).toEqual([false, 1]);
    return 'ten lines';
  };
  const asking = [one, other, one, other].map((postern) => postern.run(name).once({ withinMs: 600_000 }, work));
  const told = await Promise.all(asking);
  const done = told.filter((each) => each.started);
  expect(done).toMatchObject([{ attempt: 1, result: 'ten lines' }]);
  expect(tokens).toHaveLength(1);
  const { occurrence } = done[0]!;
  expect(await other.run(name).once({ occurrence }, work)).toMatchObject({ started: false, state: 'done' });
  expect((await one.run(name).show()).occurrences).toMatchObject([{ occurrence, state: 'done', attempt: 1 }]);
});

test('work that throws has failed, with its message, and is tried again until all attempts are used up', async () => {
  await using postern = client();
  const run = postern.run(randomUUID());
  const options = { occurrence: 'monday', maxAttempts: 2 };
  const failing = (): Promise<never> => Promise.reject(new Error('no disk'.padEnd(300, '.')));
  await expect(run.once(options, failing)).rejects.toThrow('no disk');
  expect((await run.show()).occurrences[0]).toMatchObject({ state: 'open', note: 'no disk'.padEnd(200, '.') });
  await expect(run.once(options, failing)).rejects.toThrow('no disk');
  expect(await run.once(options, failing)).toMatchObject({ started: false, state: 'failed', attempt: 2 });
});

test('work may say itself how it ended, once', async () => {
  await using postern = client();
  const run = postern.run(randomUUID());
  const result = await run.once({ occurrence: 'monday' }, async (attempt) => {
    await attempt.done('42 mails');
    expect(attempt.ok()).toBe(false);
    expect(() => attempt.failed()).toThrow('finished before');
    return 42;
  });
  expect(result).toMatchObject({ result: 42 });
  expect((await run.show()).occurrences[0]).toMatchObject({ state: 'done', note: '42 mails' });
  await run.forget('monday');
  expect((await run.show()).occurrences).toEqual([]);
  expect(await run.forget('monday').catch(codeOf)).toBe('not-found');
});

test('a start that waits takes over when the attempt is lost, for longer than one request may wait', async () => {
  await using first = client();
  await using second = client({ ttlMs: SHORT_MS }); // a request of its waits for no longer than that
  const name = randomUUID();
  const lost = await begun(first, name);
  const waiting = second.run(name).start({ occurrence: 'monday', waitMs: Infinity });
  let isTold = false;
  void waiting.then(() => (isTold = true));
  await throughout('it waits', () => !isTold, { forMs: 1.5 * SHORT_MS });
  await first.close();
  expect(lost.signal.reason).toMatchObject({ cause: 'closed' });
  expect(await waiting).toMatchObject({ started: true, attempt: 2 });
});

test('a wait in vain says whose attempt runs, also where the occurrence was meant by its time', async () => {
  await using holder = client({ label: 'the other' });
  await using late = client({ ttlMs: SHORT_MS });
  const name = randomUUID();
  const attempt = await holder.run(name).start({ withinMs: 1 });
  const { occurrence } = attempt;
  for (const waitMs of [0, 1.5 * SHORT_MS])
    expect(await late.run(name).start({ withinMs: 1, waitMs })).toMatchObject({
      started: false,
      state: 'running',
      occurrence,
      by: { label: 'the other' },
    });
});

test('the signal aborts when the lease is lost, and the work is not recorded as done', async () => {
  await using postern = client();
  await using heir = client();
  const name = randomUUID();
  const { occurrence } = { occurrence: 'monday' };
  const doing = postern.run(name).once({ occurrence }, async (attempt) => {
    const [running] = (await heir.run(name).show()).occurrences;
    await expireSession(pair.b, running!.by.leaseId);
    const next = await heir.run(name).start({ occurrence, waitMs: 20_000 });
    expect(next).toMatchObject({ started: true, attempt: 2 });
    await eventually('it is told', () => attempt.signal.aborted);
  });
  await expect(doing).rejects.toThrow(HoldLostError);
  expect((await heir.run(name).show()).occurrences[0]).toMatchObject({ state: 'running', attempt: 2 });
});

test('a finish that was not answered counts, also when the lease has ended before it is asked again', async () => {
  await using proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port) });
  const url = `http://127.0.0.1:${proxy.port}`;
  await using postern = client({ urls: [url], ttlMs: SHORT_MS });
  const name = randomUUID();
  const attempt = await begun(postern, name);
  proxy.pause('fromZooKeeper');
  const finishing = attempt.done();
  await eventually('it is done', async () => {
    const { occurrences } = (await pair.b.expect(200, 'GET', `/v1/runs/${name}`)) as {
      occurrences: { state: string }[];
    };
    return occurrences[0]?.state === 'done';
  });
  await eventually('the lease is taken for lost', () => attempt.signal.aborted);
  proxy.resume();
  expect(await finishing).toMatchObject({ state: 'done' });
});

test('a start that nobody waits for any more leaves no attempt behind', async () => {
  await using proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port) });
  await using slow = client({ urls: [`http://127.0.0.1:${proxy.port}`], ttlMs: 20_000 });
  await using other = client();
  const name = randomUUID();
  await slow.run(name).show(); // so that there is a connection
  const tired = new AbortController();
  const occurrence = 'monday';
  const hold = await slow.lock(name).acquire(); // and a lease
  proxy.pause('fromZooKeeper');
  const starting = slow.run(name).start({ occurrence, signal: tired.signal });
  await eventually('it is started', async () => (await other.run(name).show()).occurrences.length === 1);
  tired.abort(new Error('enough'));
  await expect(starting).rejects.toThrow('enough');
  proxy.resume();
  await eventually('it is given up', async () => (await other.run(name).show()).occurrences[0]?.state === 'open');
  expect(hold.ok()).toBe(true);
  expect(await begun(other, name)).toMatchObject({ attempt: 2 });
});

test('a wait that is given up does not end the attempt of another start of the same client', async () => {
  await using postern = client();
  const name = randomUUID();
  const attempt = await begun(postern, name);
  const tired = new AbortController();
  const waiting = postern.run(name).start({ occurrence: 'monday', waitMs: Infinity, signal: tired.signal });
  await eventually('it waits', () => pair.a.gateway.observed() + pair.b.gateway.observed() > 0);
  tired.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  await throughout('it runs', async () => (await postern.run(name).show()).occurrences[0]?.state === 'running');
  expect(await attempt.done()).toMatchObject({ state: 'done', attempt: 1 });
});

test('is observed: each start and each end is seen', async () => {
  await using postern = client();
  const run = postern.run(randomUUID());
  const states: (string | undefined)[] = [];
  for await (const { occurrences } of run.observe()) {
    states.push(occurrences[0]?.state);
    if (states.length === 1)
      void run.once({ occurrence: 'monday' }, () => eventually('it is seen', () => states.length === 2));
    if (occurrences[0]?.state === 'done') break;
  }
  expect(states).toEqual([undefined, 'running', 'done']);
});
