/**
 * The last release beside this checkout, under one root: clients of every kind ask replicas of both while these are
 * upgraded and rolled back in turn, and the history of every object is judged; what one has begun the other goes on
 * with; and what the older cannot read it refuses by name.
 *
 * `HISTORY_KINDS=pool,lock` does only what these do; `FAULT_SEED` repeats the choices.
 */
import { env } from 'node:process';
import { describe, expect, it } from 'vitest';
// @ts-expect-error -- plain JavaScript without declarations
import { provideLastRelease, ShortHistoryError } from '../../scripts/lib/last-release.mjs';
import { Crowd } from '../histories/workloads/crowd.js';
import { workloads } from '../histories/workloads/index.js';
import { eventually } from '../support/eventually.js';
import type { Client, Held, LeaseHandle } from '../support/http/client.js';
import { seededRandom } from '../support/scene.js';
import { MAIN, spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { TestControl } from '../support/zookeeper/sessions.js';

/** Those by which records of every form are written; none may use what the last release does not know yet. */
const USUAL_KINDS =
  'counter,config,lock,rwlock,semaphore,pool,election,queue,claims,grouped,reservation,run,transaction,barrier,group';
const KINDS = (env['HISTORY_KINDS'] ?? USUAL_KINDS).split(',');
const TTL_MS = 3_000;
/** Few, for as long as replicas take to start: the longer the histories, the longer the judging. */
const LOAD = { ttlMs: TTL_MS, clients: 2, renewedMs: 10_000 };
/** Of each kind, between two replacements. */
const OPERATIONS = 15;
const LIMIT = { timeout: scaled(240_000) };

interface Release {
  version: string;
  main: string;
}

/** @returns a sentence where the history is not here: then there is nothing to run */
async function theLastRelease(): Promise<Release | string> {
  try {
    return await (provideLastRelease as (log: (line: string) => void) => Promise<Release>)(console.log);
  } catch (error) {
    if (error instanceof (ShortHistoryError as new () => Error)) return error.message;
    throw error;
  }
}

const found = await theLastRelease();
if (typeof found === 'string') console.warn(`Not run: upgrade and rollback. ${found}`);
const { version, main: old } = typeof found === 'string' ? { version: 'none', main: '' } : found;

/** Told to stop, it ends by itself; one of the other build takes its place. */
async function replace(replica: ReplicaProcess, main: string): Promise<void> {
  expect(await replica.kill('SIGTERM')).toBe(0);
  await replica.restart(main);
}

describe.skipIf(typeof found === 'string')(`this checkout beside release ${version}`, () => {
  it('tells all clients what is right while it replaces that release, and is replaced by it again', LIMIT, async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root, main: old });
    await using b = await spawnReplica({ root, main: old });
    const random = seededRandom('upgraded and rolled back');
    const crowds = KINDS.map((kind) => new Crowd(workloads[kind]!, [a, b], random, LOAD));
    const over = new AbortController();
    const doing = Promise.all(crowds.map((crowd) => crowd.run(over.signal)));
    const replacing = (async () => {
      const steps = [
        [a, MAIN],
        [b, MAIN],
        [a, old],
        [b, old],
      ] as const;
      for (const [replica, main] of steps) {
        await eventually('there is load', hasGrown(crowds), { withinMs: scaled(60_000) });
        await replace(replica, main);
      }
      await eventually('there is load', hasGrown(crowds), { withinMs: scaled(60_000) });
    })();
    await Promise.race([replacing, doing]).finally(() => over.abort());
    await Promise.all([replacing, doing]);
    const complaints = (await Promise.all(crowds.map((crowd) => crowd.complaints()))).flat();
    for (const { history, workload, unknown } of crowds)
      console.log(`${workload.kind}: ${history.size} operations, ${unknown} of unknown outcome`);
    if (complaints.length > 0) throw new Error(complaints.join('\n'));
  });

  it('goes on with what that release has begun, and that release with what it has', LIMIT, async () => {
    const root = freshRoot();
    await using older = await spawnReplica({ root, main: old });
    await using newer = await spawnReplica({ root });
    await goOn('up', older, newer);
    await goOn('down', newer, older);
  });

  it('is refused by name where it has written what that release does not know (C47)', LIMIT, async () => {
    const root = freshRoot();
    await using control = await TestControl.open(sharedZooKeeper());
    await using older = await spawnReplica({ root, main: old });
    await using newer = await spawnReplica({ root });
    await newer.expect(201, 'POST', '/v1/queues/jobs/messages', { body: { messages: [{ body: 1 }] } });
    const path = `${root}/ns/default/queues/jobs`;
    const before = (await control.getData(path)).data;
    await control.setData(path, Buffer.from(before.toString().replace('"fifo"', '"of tomorrow"')));
    const refused = { code: 'zookeeper-unavailable', outcome: 'not-applied' };
    const detail = expect.stringContaining('does not know its order "of tomorrow"') as unknown;
    const pop = (): ReturnType<Client['call']> => older.call('POST', '/v1/queues/jobs/pop', { body: {} });
    expect((await pop()).body).toMatchObject({ ...refused, detail });
    await control.setData(path, before);
    await eventually('the older one hands it out', async () => (await pop()).status === 200);
  });

  it('is not disturbed by that release once the format of the data is another (C47)', LIMIT, async () => {
    const root = freshRoot();
    await using control = await TestControl.open(sharedZooKeeper());
    await control.create(root);
    await control.create(`${root}/format`, Buffer.from('of tomorrow'));
    const settings = { POSTERN_REQUEST_TIMEOUT_MS: '20000' };
    await using older = await spawnReplica({ root, main: old, settings, becomesReady: false });
    await eventually('it listens', async () => (await older.call('GET', '/healthz')).status === 200);
    const reply = await older.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
    const detail = expect.stringContaining('have the format "of tomorrow"') as unknown;
    expect(reply.body).toMatchObject({ code: 'zookeeper-unavailable', outcome: 'not-applied', detail });
    expect((await control.getChildren(root)).children).toEqual(['format']);
  });
});

/** True once each of them has done so many operations more. */
function hasGrown(crowds: readonly Crowd<unknown, unknown>[]): () => boolean {
  const wanted = crowds.map(({ history }) => history.size + OPERATIONS);
  return () => crowds.every(({ history }, i) => history.size >= (wanted[i] as number));
}

/** What is begun at `from` is gone on with at `to`, and ended at `from`. */
async function goOn(name: string, from: Client, to: Client): Promise<void> {
  const lease = await from.createLease({ ttlMs: 20_000, requestId: `lease-of-${name}`.padEnd(22, '-') });
  const { leaseToken } = lease;
  const other = await to.createLease({ ttlMs: 20_000 });
  for (const replica of [to, from, to]) expect((await replica.heartbeat(lease)).body).toMatchObject({ lost: [] });
  const leased = (body: Record<string, unknown> = {}) => ({ leaseToken, body });
  const others = (body: Record<string, unknown> = {}) => ({ leaseToken: other.leaseToken, body });

  await handOn(name, from, to, [lease, other]);
  await from.expect(200, 'POST', `/v1/elections/${name}/campaign`, leased({ value: 'first' }));
  const stands = to.expect(200, 'POST', `/v1/elections/${name}/campaign`, others({ waitMs: 20_000 }));
  await eventually('both stand', async () => {
    const { candidateCount } = (await from.expect(200, 'GET', `/v1/elections/${name}`)) as { candidateCount: number };
    return candidateCount === 2;
  });
  await to.expect(204, 'POST', `/v1/elections/${name}/resign`, leased());
  await stands;

  await from.expect([200, 201, 204], 'PUT', `/v1/semaphores/${name}`, { body: { limit: 1 } });
  await to.expect(200, 'POST', `/v1/semaphores/${name}/acquire`, leased());
  await from.expect(409, 'POST', `/v1/semaphores/${name}/acquire`, others({ waitMs: 0 }));
  await to.expect(204, 'POST', `/v1/semaphores/${name}/release`, leased());

  await from.expect(201, 'PUT', `/v1/pools/${name}`, { body: { of: 1 } });
  await to.expect(200, 'POST', `/v1/pools/${name}/acquire`, leased());
  await from.expect(204, 'POST', `/v1/pools/${name}/release`, leased());

  const messages = [{ body: 1, messageId: 'one' }];
  await from.expect(201, 'POST', `/v1/queues/${name}/messages`, { body: { messages } });
  await to.expect([200, 201], 'POST', `/v1/queues/${name}/messages`, { body: { messages } });
  const claimed = await to.expect(200, 'POST', `/v1/queues/${name}/claim`, leased({ max: 10, requestId: 'claim' }));
  expect(await from.expect(200, 'POST', `/v1/queues/${name}/claim`, leased({ max: 10, requestId: 'claim' }))).toEqual(
    claimed,
  );
  const claimIds = (claimed.items as { claimId: string }[]).map(({ claimId }) => claimId);
  expect(claimIds).toHaveLength(1);
  const acknowledged = await from.expect(200, 'POST', `/v1/queues/${name}/ack`, leased({ claimIds }));
  expect(acknowledged.items).toMatchObject([{ status: 200 }]);

  await write(name, from, to);
  await goOnWithRecords(name, from, to, leased);

  expect((await from.endLease(lease)).status).toBe(204);
  expect((await to.heartbeat(lease)).status).toBe(410);
  await to.endLease(other);
}

type Leased = (body?: Record<string, unknown>) => { leaseToken: string; body: Record<string, unknown> };

/** Reservations, runs, schedules, transactions. */
async function goOnWithRecords(name: string, from: Client, to: Client, leased: Leased): Promise<void> {
  const reserved = await from.expect(200, 'POST', `/v1/locks/held-${name}/reserve`, {
    body: { forMs: 60_000, owner: 'me', requestId: name.padEnd(22, '-') },
  });
  const { reservationToken } = reserved as { reservationToken: string };
  const extension = { body: { reservationToken, forMs: 120_000 } };
  await to.expect(200, 'POST', `/v1/locks/held-${name}/reservation/extend`, extension);
  await from.expect([200, 204], 'POST', `/v1/locks/held-${name}/reservation/release`, { body: { reservationToken } });

  const started = await from.expect([200, 201], 'POST', `/v1/runs/${name}/start`, leased({ occurrence: 'monday' }));
  const { fencingToken } = started as { fencingToken: number };
  const finish = leased({ occurrence: 'monday', outcome: 'done', fencingToken });
  await to.expect(200, 'POST', `/v1/runs/${name}/finish`, finish);
  await from.expect(200, 'POST', `/v1/runs/${name}/finish`, finish);

  const nightly = { cron: '0 3 * * *', to: { queue: 'nightly', body: name } };
  await from.expect(201, 'PUT', `/v1/schedules/${name}`, { body: nightly });
  await to.expect(200, 'PUT', `/v1/schedules/${name}`, { body: { ...nightly, paused: true } });
  expect(await from.expect(200, 'GET', `/v1/schedules/${name}`)).toMatchObject({ paused: true });

  const begun = await from.expect(201, 'POST', '/v1/transactions', {
    body: { participants: ['p'], deadlineMs: 60_000 },
  });
  const path = `/v1/transactions/${(begun as { transactionId: string }).transactionId}`;
  await to.expect(200, 'POST', `${path}/join`, leased({ participant: 'p' }));
  await from.expect(200, 'POST', `${path}/vote`, leased({ participant: 'p', vote: 'commit' }));
  expect(await to.expect(200, 'GET', path)).toMatchObject({ state: 'committed' });
}

/** A lock goes from a holder at one to a waiter at the other, and tokens rise. */
async function handOn(
  name: string,
  from: Client,
  to: Client,
  [first, second]: [LeaseHandle, LeaseHandle],
): Promise<void> {
  const held = await from.hold(name, first);
  const next = to.hold(name, second, { waitMs: 20_000, requestId: 'next' });
  await from.untilWaiting(name, 1);
  const check = { leaseToken: first.leaseToken, body: {} };
  await to.expect(200, 'POST', `/v1/locks/${name}/check`, { ...check, body: { fencingToken: held.fencingToken } });
  expect((await to.release(name, first)).status).toBe(204);
  const granted: Held = await next;
  expect(granted.fencingToken).toBeGreaterThan(held.fencingToken);
  // Repeated at the other one, it finds what the first one did.
  expect(await from.hold(name, second, { requestId: 'next' })).toMatchObject({
    holdId: granted.holdId,
    fencingToken: granted.fencingToken,
    alreadyHeld: true,
  });
  expect((await from.release(name, second, { requestId: 'next' })).status).toBe(204);
}

/** ETags and marks of what was done count at both. */
async function write(name: string, from: Client, to: Client): Promise<void> {
  const path = `/v1/config/${name}`;
  const created = await from.call('PUT', path, { body: { value: 1 }, headers: { 'if-none-match': '*' } });
  const etag = String(created.headers['etag']);
  const change = { body: { value: 2 }, headers: { 'if-match': etag, 'idempotency-key': `change-${name}` } };
  const changed = await to.call('PUT', path, change);
  expect(changed.status).toBe(200);
  const repeated = await from.call('PUT', path, change);
  expect(repeated).toMatchObject({ status: 200, headers: { etag: changed.headers['etag'] } });
  expect((await from.call('PUT', path, { body: { value: 3 }, headers: { 'if-match': etag } })).status).toBe(412);

  for (const replica of [from, to, from]) {
    const body = { by: 1, requestId: `add-${name}` };
    expect(await replica.expect(200, 'POST', `/v1/counters/${name}/add`, { body })).toMatchObject({ value: 1 });
  }
}
