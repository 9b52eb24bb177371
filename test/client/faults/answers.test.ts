/** What becomes of requests that are answered by somebody else than a gateway that is well, or not at all. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Postern, type PosternError, type PosternOptions } from '../../../src/client/index.js';
import { FaultyGateway, type Fault } from '../../conformance/faulty-gateway.js';
import { eventually } from '../../support/eventually.js';
import { startReplica, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { startTcpProxy } from '../../support/zookeeper/tcp-proxy.js';

/** Longer than the tests: that a lease has ended must not be what gives anything back. */
const TTL_MS = 120_000;
const OVERLOADED = { status: 503, code: 'overloaded', retryable: true, outcome: 'not-applied' };
const UNAUTHENTICATED = { status: 401, code: 'unauthenticated', retryable: false, outcome: 'not-applied' };
const FORBIDDEN = { ...UNAUTHENTICATED, status: 403, code: 'forbidden' };
const INVALID = { ...UNAUTHENTICATED, status: 422, code: 'invalid' };
const MANY = 1_000;

type Page = NonNullable<Fault['page']>;
const page = (status: number, headers: Record<string, string> = {}): Page => ({
  status,
  headers: { 'Content-Type': 'text/html', ...headers },
  text: '<html>We are back soon</html>',
});
/** With status 200, as a captive portal or a maintenance page answers. */
const PORTALS: [string, Page][] = [
  ['a page', page(200)],
  ['JSON', { status: 200, headers: { 'Content-Type': 'application/json' }, text: '{"status":"maintenance"}' }],
  ['what only says that it is JSON', page(200, { 'Content-Type': 'application/json' })],
];
const ODD: [string, Pick<Fault, 'answer' | 'page'>][] = [
  ['a 401', { answer: UNAUTHENTICATED }],
  ['a 403', { answer: FORBIDDEN }],
  ["a proxy's 404", { page: page(404) }],
  ["a proxy's 503 for an hour", { page: page(503, { 'Retry-After': '3600' }) }],
];

let replica: Replica;
let gateway: FaultyGateway;
beforeAll(async () => {
  replica = await startReplica();
  gateway = await FaultyGateway.start(replica.url);
});
afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await replica[Symbol.asyncDispose]();
});

const client = (options: Partial<PosternOptions> = {}): Postern =>
  new Postern({ urls: [gateway.url], ttlMs: TTL_MS, patienceMs: 300, ...options });

const failure = (error: unknown): PosternError => error as PosternError;

test.each([OVERLOADED, UNAUTHENTICATED])(
  'an addition whose answer was lost may have been done, although it is then refused with $code',
  async (answer) => {
    await using postern = client();
    const name = randomUUID();
    const path = `/${name}/add`;
    gateway.befall({ path, times: 1 });
    gateway.befall({ path, times: MANY, answer });
    const refused = await postern.counter(name).add(1).then(String, failure);
    expect(refused).toMatchObject({ code: answer.code, outcome: 'unknown' });
    expect(await replica.expect(200, 'GET', `/v1/counters/${name}`)).toMatchObject({ value: 1 });
  },
);

test('an addition that only was refused was not done', async () => {
  await using postern = client();
  const name = randomUUID();
  gateway.befall({ path: `/${name}/add`, times: MANY, answer: OVERLOADED });
  expect(await postern.counter(name).add(1).catch(failure)).toMatchObject({ outcome: 'not-applied' });
});

test('a lock that was granted without an answer is given back when no replica takes the request any more', async () => {
  await using postern = client();
  const name = randomUUID();
  const path = `/${name}/acquire`;
  gateway.befall({ path, times: 1 });
  gateway.befall({ path, times: MANY, answer: OVERLOADED });
  expect(await postern.lock(name).acquire().catch(failure)).toMatchObject({ code: 'overloaded', outcome: 'unknown' });
  expect(gateway.seen.filter((one) => one.path.endsWith(path)).length).toBeGreaterThan(1);
  await eventually('it is free', async () => (await replica.showLock(name)).holderCount === 0);
});

test('a message that was claimed without an answer is given back, however long that is not served', async () => {
  await using postern = client({ patienceMs: 0 });
  const queue = postern.queue(randomUUID());
  const path = `/${queue.name}/claim`;
  await queue.push('one');
  gateway.befall({ path, times: 1 });
  gateway.befall({ path, times: 1, answer: UNAUTHENTICATED });
  gateway.befall({ path, times: 2, answer: OVERLOADED });
  await expect(queue.jobs().next()).rejects.toMatchObject({ code: 'unauthenticated', outcome: 'unknown' });
  await eventually('it is given back', async () => {
    const { depth, claimed } = await queue.show();
    return depth === 1 && claimed === 0;
  });
});

test('an attempt at a run that was started without an answer is given up, however long that is not served', async () => {
  await using postern = client({ patienceMs: 0 });
  const name = randomUUID();
  gateway.befall({ path: `/${name}/start`, times: 1 });
  gateway.befall({ path: `/runs/${name}`, times: 2, answer: OVERLOADED });
  expect(await postern.run(name).start({ occurrence: 'monday' }).catch(failure)).toMatchObject({ outcome: 'unknown' });
  await eventually('it has failed', async () => {
    const { occurrences } = await replica.expect(200, 'GET', `/v1/runs/${name}`);
    return occurrences[0].state === 'open';
  });
});

test.each(ODD)('a release is repeated after %s, and the lock is free', async (_what, answer) => {
  await using postern = client();
  const name = randomUUID();
  const hold = await postern.lock(name).acquire();
  gateway.befall({ path: `/${name}/release`, times: 2, ...answer });
  await hold.release();
  expect((await replica.showLock(name)).holderCount).toBe(0);
});

test.each(ODD)('an ack is repeated after %s, and the message is gone', async (_what, answer) => {
  await using postern = client();
  const name = randomUUID();
  await postern.queue(name).push('one');
  gateway.befall({ path: `/${name}/ack`, times: 2, ...answer });
  for await (const job of postern.queue(name).jobs()) {
    await job.ack();
    break;
  }
  expect(await replica.expect(200, 'GET', `/v1/queues/${name}`)).toMatchObject({ depth: 0, claimed: 0 });
});

test('a release that the gateway refuses may be tried again', async () => {
  await using postern = client();
  const name = randomUUID();
  const hold = await postern.lock(name).acquire();
  gateway.befall({ path: `/${name}/release`, times: 1, answer: INVALID });
  expect(await hold.release().catch(failure)).toMatchObject({ code: 'invalid' });
  await hold.release();
  expect((await replica.showLock(name)).holderCount).toBe(0);
});

test.each(PORTALS)('a hold is lost in time when heartbeats are answered 200 with %s', async (_what, answer) => {
  await using portal = await FaultyGateway.start(replica.url);
  const ttlMs = scaled(1_000);
  await using postern = client({ urls: [portal.url], ttlMs });
  const hold = await postern.lock(randomUUID()).acquire();
  portal.befall({ path: '/heartbeat', times: MANY, page: answer });
  await eventually('it is lost', () => hold.signal.aborted, { withinMs: ttlMs });
  expect(hold.signal.reason).toMatchObject({ cause: 'lease-expired' });
});

test.each(PORTALS)('no lease is taken from 200 with %s, and it is asked for once', async (_what, answer) => {
  await using portal = await FaultyGateway.start(replica.url);
  portal.befall({ path: '/v1/leases', times: MANY, page: answer });
  await using postern = client({ urls: [portal.url] });
  const refused = await postern.lock('x').acquire().then(String, failure);
  expect(refused).toMatchObject({ code: 'unreachable', status: 200, retryable: true, outcome: 'unknown' });
  expect(portal.seen).toHaveLength(1);
});

test.each(PORTALS)('a lock is neither taken nor released by 200 with %s', async (_what, answer) => {
  await using postern = client();
  const name = randomUUID();
  gateway.befall({ path: `/${name}/acquire`, times: 1, page: answer });
  expect(await postern.lock(name).acquire().then(String, failure)).toMatchObject({ code: 'unreachable', status: 200 });
  const hold = await postern.lock(name).acquire();
  if (answer.text.startsWith('<')) gateway.befall({ path: `/${name}/release`, times: 2, page: answer });
  await hold.release();
  expect((await replica.showLock(name)).holderCount).toBe(0);
});

test('a lease that is granted too late each time is not asked for without end', async () => {
  await using proxy = await startTcpProxy({ port: Number(new URL(replica.url).port), framed: false });
  const ttlMs = scaled(600);
  proxy.delay('fromZooKeeper', ttlMs); // the answers of the gateway, here
  await using postern = client({ urls: [`http://${proxy.connectString}`], ttlMs });
  expect(await postern.lock('x').acquire().then(String, failure)).toMatchObject({
    code: 'lease-expired',
    retryable: true,
  });
  proxy.heal();
  await postern.lock(randomUUID()).using({}, ({ signal }) => expect(signal.aborted).toBe(false));
});
