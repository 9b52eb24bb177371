/** Fencing tokens after the data of the ensemble were lost, or set back: they go on rising (C99). */
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config.js';
import { startGateway, type Gateway } from '../../src/gateway.js';
import { createLog } from '../../src/log.js';
import { floorAbove, Zxids } from '../../src/zookeeper/connection/zxids.js';
import { eventually } from '../support/eventually.js';
import { Client } from '../support/http/client.js';
import { runLog } from '../support/run-log.js';
import { startCuttable } from '../support/scene.js';
import { startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { setAcl } from '../support/zookeeper/instruments.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';
import { TestControl } from '../support/zookeeper/sessions.js';

const TIMEOUT = { timeout: scaled(90_000) };
const TTL_MS = 10_000;
const EPOCH = 2 ** 32;
/** Permissions of ZooKeeper: nobody writes, but who may is changed. */
const READ_AND_ADMIN = 17;
const ALL = 31;

const floorOf = (above: number): Record<string, string> => ({ POSTERN_FENCING_FLOOR: String(above) });

/** A gateway that need not become ready. */
async function startUnready(root: string, settings: Record<string, string>): Promise<[Gateway, Client]> {
  const { config } = loadConfig({
    POSTERN_ZOOKEEPER: sharedZooKeeper(),
    POSTERN_ROOT: root,
    POSTERN_PORT: '0',
    POSTERN_OVERLOAD_DELAY_MS: '0',
    ...settings,
  });
  const { logger } = createLog(config, runLog.stream);
  const gateway = await startGateway({ config, logger, processMetrics: false });
  return [gateway, new Client(gateway.url)];
}

/** The processes that count with the floor of this index. */
async function registered(control: TestControl, root: string, index: number): Promise<string[]> {
  return (await control.getChildren(`${root}/fencing-floors/${index}`)).children;
}

/** One token of everything that gives some, by what it is of. */
async function tokensOf(replica: Client): Promise<Record<string, number>> {
  const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS });
  const told = async (method: 'POST' | 'PUT', path: string, body: Record<string, unknown>): Promise<number> => {
    const answer = await replica.call(method, path, { leaseToken, body });
    expect([200, 201], `${path}: ${JSON.stringify(answer.body)}`).toContain(answer.status);
    const [, token] = /"fencingToken":(\d+)/.exec(JSON.stringify(answer.body)) ?? [];
    return Number(token);
  };
  await replica.call('PUT', '/v1/pools/pool', { body: { members: [{ id: 'one' }] } });
  const key = await replica.call('PUT', '/v1/config/key', { body: { value: 1 }, headers: { 'If-None-Match': '*' } });
  return {
    lock: await told('POST', '/v1/locks/lock/acquire', {}),
    reader: await told('POST', '/v1/rwlocks/rwlock/acquire', { mode: 'read' }),
    permit: await told('POST', '/v1/semaphores/semaphore/acquire', { limit: 2 }),
    leader: await told('POST', '/v1/elections/election/campaign', {}),
    member: await told('PUT', '/v1/groups/group/members/member', {}),
    pool: await told('POST', '/v1/pools/pool/acquire', {}),
    run: await told('POST', '/v1/runs/run/start', { occurrence: 'today' }),
    round: await told('POST', '/v1/double-barriers/barrier/enter', { size: 1 }),
    reservation: await told('POST', '/v1/locks/reserved/reserve', { owner: 'me', forMs: 60_000 }),
    etag: Number(/^"(\d+)/.exec(String(key.headers['etag']))?.[1]),
  };
}

test('in a new ensemble every token is higher than the highest of the lost one', TIMEOUT, async () => {
  const root = freshRoot();
  let before: Record<string, number>;
  let highest: number;
  {
    await using lost = await startZooKeeper();
    await using control = await TestControl.open(lost.connectString);
    // The new ensemble will not count as far.
    for (let i = 0; i < 500; i += 1) await control.create(`/n${i}`);
    await using replica = await startReplica({ root, zookeeper: lost.connectString });
    before = await tokensOf(replica);
    await replica.call('GET', '/v1/locks/lock');
    await replica.call('GET', '/metrics');
    highest = await replica.metric('postern_fencing_token_highest');
    expect(highest).toBeGreaterThanOrEqual(Math.max(...Object.values(before)));
  }
  await using found = await startZooKeeper();
  await using replica = await startReplica({ root, zookeeper: found.connectString, settings: floorOf(highest) });
  const after = await tokensOf(replica);
  expect(Object.keys(after)).toEqual(Object.keys(before));
  for (const [what, token] of Object.entries(after)) expect(token, what).toBeGreaterThan(highest);
  await using second = await startReplica({ root, zookeeper: found.connectString });
  const checked = { body: { fencingToken: after['lock'] as number } };
  expect((await second.call('POST', '/v1/locks/lock/check', checked)).body).toMatchObject({ current: true });
});

/** Starts an occurrence and finishes it. @returns its fencing token */
async function run(replica: Replica, occurrence: string): Promise<number> {
  const { leaseToken } = await replica.createLease({ ttlMs: TTL_MS });
  const started = await replica.expect(200, 'POST', '/v1/runs/r/start', { leaseToken, body: { occurrence } });
  const { fencingToken } = started as { fencingToken: number };
  const body = { occurrence, outcome: 'done', fencingToken };
  await replica.expect(200, 'POST', '/v1/runs/r/finish', { leaseToken, body });
  await replica.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
  return fencingToken;
}

test('what was held before the floor was raised keeps its token, and what comes later has a higher one', async () => {
  const root = freshRoot();
  let token: number;
  {
    await using replica = await startReplica({ root });
    const reserved = await replica.expect(200, 'POST', '/v1/locks/reserved/reserve', {
      body: { owner: 'me', forMs: 60_000 },
    });
    token = (reserved as { fencingToken: number }).fencingToken;
    await run(replica, 'before');
  }
  const settings = floorOf(token + 5 * EPOCH);
  await using replica = await startReplica({ root, settings });
  expect(await replica.showLock('reserved')).toMatchObject({ holders: [{ fencingToken: token }] });
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  const held = await replica.hold('other', lease);
  expect(held.fencingToken).toBeGreaterThan(token + 5 * EPOCH);
  // The token of an attempt is that of the write before it, which here is older than the floor.
  expect(await run(replica, 'after')).toBeGreaterThan(token + 5 * EPOCH);

  // One that asks for less, or for nothing, counts as the data say.
  await using lower = await startReplica({ root, settings: floorOf(1) });
  expect(await lower.showLock('other')).toMatchObject({ holders: [{ fencingToken: held.fencingToken }] });
  const next = await lower.hold('third', lease);
  expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
});

test('the floor is not raised beside a process that counts with it, nor while a lease lives', TIMEOUT, async () => {
  const root = freshRoot();
  const running = await startReplica({ root });
  const lease = await running.createLease({ ttlMs: TTL_MS });
  const before = await running.hold('held', lease);
  const [gateway, raising] = await startUnready(root, floorOf(before.fencingToken + EPOCH));
  try {
    const refusal = async (): Promise<string> =>
      JSON.stringify((await raising.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } })).body);
    await eventually('it waits for the other process', async () =>
      (await refusal()).includes('other processes to stop'),
    );
    // Which one, and once, however often it is tried.
    const { floor } = gateway.ensembles[0]!.foundation;
    for (let looks = 0; looks < 2; looks += 1) {
      const { refused } = floor;
      await eventually('it has looked again', () => floor.refused !== refused);
    }
    const waits = /^POSTERN_FENCING_FLOOR is .* waits for other processes to stop \(\S+:0\)\./;
    const logged = runLog.lines().filter((line) => JSON.stringify(line).includes('other processes to stop'));
    expect(logged).toMatchObject([{ level: 'warn', reason: expect.stringMatching(waits) as string }]);
    expect((await running.hold('next', lease)).fencingToken).toBeLessThan(before.fencingToken + EPOCH);
    await running[Symbol.asyncDispose]();
    await eventually('it waits for the lease', async () => (await refusal()).includes('the leases of before to end'));
    await raising.untilReady();
    const later = await raising.createLease({ ttlMs: TTL_MS });
    expect((await raising.hold('held', later)).fencingToken).toBeGreaterThan(before.fencingToken + EPOCH);
  } finally {
    await raising[Symbol.asyncDispose]();
    await gateway.stop(0);
  }
});

test('the floor is raised in time, however many namespaces there are and however far away', TIMEOUT, async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  {
    await using _ = await startReplica({ root });
  }
  for (let i = 0; i < 600; i += 1) await control.create(`${root}/ns/n${i}`);
  proxy.delay('fromZooKeeper', 20);
  const settings = { ...floorOf(EPOCH), POSTERN_ZOOKEEPER: proxy.connectString };
  const [gateway, raising] = await startUnready(root, settings);
  try {
    await raising.untilReady();
  } finally {
    await raising[Symbol.asyncDispose]();
    await gateway.stop(0);
  }
});

test('a replica whose session was away while the floor was raised does nothing any more', TIMEOUT, async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
  const { replica: stale, proxy } = cuttable;
  const own = stale.gateway.context.control;
  const session = own.sessionId;
  proxy.suspend();
  await eventually('its session is given up', () => own.sessionId !== session);
  await eventually('and has ended', async () => (await registered(control, root, 0)).length === 0);
  await using _raising = await startReplica({ root, settings: floorOf(EPOCH) });
  proxy.heal();
  await eventually('it says so', async () =>
    JSON.stringify((await stale.call('GET', '/readyz')).body).includes('until it is started again'),
  );
  const lease = await stale.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
  expect(lease.body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
  expect((await stale.call('GET', '/v1/locks')).body).toMatchObject({ detail: expect.stringContaining('was raised') });
  expect(await registered(control, root, 1)).toHaveLength(1);
});

test('a replica never writes its floor over another one that has taken the same place', TIMEOUT, async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using cuttable = await startCuttable({
    root,
    controlSessionTimeoutMs: 2_000,
    settings: floorOf(EPOCH),
  });
  const { replica: stale, proxy } = cuttable;
  const own = stale.gateway.context.control;
  const session = own.sessionId;
  proxy.suspend();
  await eventually('its session is given up', () => own.sessionId !== session);
  await eventually('and has ended', async () => (await registered(control, root, 1)).length === 0);
  // As in an ensemble that was made anew, with a higher floor.
  const higher = Buffer.from(JSON.stringify({ floor: 9 * EPOCH, earlier: [] }));
  await control.delete(`${root}/fencing-floors/1`);
  await control.create(`${root}/fencing-floors/1`, higher);
  proxy.heal();
  await eventually('it says so', async () =>
    JSON.stringify((await stale.call('GET', '/readyz')).body).includes('until it is started again'),
  );
  const lease = await stale.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
  expect(lease.body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
  expect(String((await control.getData(`${root}/fencing-floors/1`)).data)).toBe(String(higher));
  expect(await registered(control, root, 1)).toEqual([]);
});

test('a replica with a new session is registered again before it makes a lease', TIMEOUT, async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
  const { replica, proxy } = cuttable;
  const own = replica.gateway.context.control;
  const session = own.sessionId;
  expect(await registered(control, root, 0)).toEqual([BigInt.asUintN(64, session).toString(16)]);
  proxy.suspend();
  await eventually('its session is given up', () => own.sessionId !== session);
  await eventually('and has ended', async () => (await registered(control, root, 0)).length === 0);
  proxy.heal();
  const lease = await replica.createLease({ ttlMs: TTL_MS });
  expect(await registered(control, root, 0)).toEqual([BigInt.asUintN(64, own.sessionId).toString(16)]);
  await replica.endLease(lease);
});

test(
  'a replica whose new session may not be registered is not ready, and says why, until it may',
  TIMEOUT,
  async () => {
    const root = freshRoot();
    await using control = await TestControl.open(sharedZooKeeper());
    await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
    const { replica, proxy } = cuttable;
    const own = replica.gateway.context.control;
    const session = own.sessionId;
    const mayAll = (permission: number): Promise<unknown> =>
      control.submit(setAcl(`${root}/fencing-floors/0`, [{ permission, id: { scheme: 'world', id: 'anyone' } }]));
    proxy.suspend();
    await eventually('its session is given up', () => own.sessionId !== session);
    await mayAll(READ_AND_ADMIN);
    proxy.heal();
    await eventually('it is not ready', async () => (await replica.call('GET', '/readyz')).status === 503, {
      withinMs: scaled(30_000),
    });
    await eventually('it says why', async () =>
      /not been registered below the fencing floor for \d+ s \(.*NO_AUTH/.test(
        JSON.stringify((await replica.call('GET', '/readyz')).body),
      ),
    );
    await mayAll(ALL);
    await replica.untilReady();
    await replica.endLease(await replica.createLease({ ttlMs: TTL_MS }));
  },
);

test('a process that is registered no longer makes no lease', async () => {
  const root = freshRoot();
  await using control = await TestControl.open(sharedZooKeeper());
  await using replica = await startReplica({ root });
  const [own] = (await registered(control, root, 0)) as [string];
  await control.delete(`${root}/fencing-floors/0/${own}`);
  const { body } = await replica.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
  expect(body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied' });
});

test('a floor above what JSON tells exactly is refused by name', () => {
  const environment = { POSTERN_ZOOKEEPER: '127.0.0.1:1', ...floorOf(2 ** 52 + 1) };
  expect(() => loadConfig(environment)).toThrow(/POSTERN_FENCING_FLOOR .*4503599627370496/);
  const zxids = new Zxids();
  zxids.number([{ from: 1, floor: 2 ** 52 }]);
  expect(() => zxids.of(2 ** 52)).toThrow('beyond 2^53');
});

test('numbers rise with those of the ensemble, over every floor', () => {
  const zxids = new Zxids();
  zxids.number([
    { from: 10, floor: floorAbove(9) },
    { from: 20, floor: floorAbove(EPOCH + 20) },
  ]);
  expect([-1, 0, 9, 10, 19, 20].map((zxid) => zxids.of(zxid))).toEqual([
    -1,
    0,
    9,
    EPOCH + 10,
    EPOCH + 19,
    2 * EPOCH + 20,
  ]);
});
