/** Who is alive, and who says so: ZooKeeper about the lease's session, and nothing else. */
import { connect } from 'node:net';
import { once } from 'node:events';
import { expect, test, vi } from 'vitest';
import { LeaseSession } from '../../../src/zookeeper/lease-session.js';
import { eventually, throughout } from '../../support/eventually.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { expireSession, startPair, startReplica } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';
import { scaled, timing } from '../../support/timing.js';
import { startCuttable, Witness } from '../../support/scene.js';

/** A heartbeat of every third may come late by the pause of a busy machine. */
const TTL_MS = 3_000;
const LONG_TTL_MS = 20_000;

test('a request that waits longer than the TTL keeps its lease alive by itself (C4)', async () => {
  await using pair = await startPair();
  const [holder, me] = [await pair.a.createLease({ ttlMs: LONG_TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('long', holder);
  const waiting = pair.a.hold('long', me, { waitMs: 20_000 });
  await pair.b.untilWaiting('long', 1);
  await throughout(
    'it waits',
    async () => ((await pair.b.showLock('long')) as { waiterCount: number }).waiterCount === 1,
    { forMs: 2 * TTL_MS },
  );
  await pair.b.release('long', holder);
  expect((await waiting).alreadyHeld).toBe(false);
});

test('a one-call acquire that is told to come back gets its token, and waits longer than the TTL (C4)', async () => {
  await using pair = await startPair();
  const holder = await pair.a.createLease({ ttlMs: LONG_TTL_MS });
  await pair.a.hold('token', holder);
  const body = { lease: { ttlMs: TTL_MS }, requestId: 'job-000000000000000000', waitMs: 2 * TTL_MS, keepPlace: true };
  const { status, body: kept } = await pair.a.acquire('token', undefined, body);
  expect({ status, position: (kept as { position: number }).position }).toEqual({ status: 202, position: 1 });
  expect((await pair.b.heartbeat(kept as { leaseToken: string })).status).toBe(200);
});

test('a place that was taken away while its lease lives is a conflict, not the end of the lease (C11)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: LONG_TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('broken', holder);
  const waiting = pair.a.acquire('broken', me, { waitMs: 20_000 });
  await pair.b.untilWaiting('broken', 1);
  await witness.control.delete((await witness.line('broken'))[1]?.path ?? '');
  const { status, body } = await waiting;
  expect({ status, code: (body as { code: string }).code }).toEqual({ status: 409, code: 'conflict' });
  expect((await pair.b.heartbeat(me)).status).toBe(200);
});

test('a server that hangs up on the attach of a lease says nothing about the lease (C11)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '1000' } });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  const me = await b.createLease({ ttlMs: LONG_TTL_MS });
  proxy.refuse();
  expect((await a.heartbeat(me)).body).toMatchObject({ status: 503, code: 'zookeeper-unavailable' });
  proxy.accept();
  await eventually('it is answered again', async () => (await a.heartbeat(me)).status === 200);
});

test('a silent ZooKeeper is not the end of a lease, however long it is silent (C11)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '500' } });
  await using b = await startReplica({ root });
  const { replica: a, proxy } = cuttable;
  // The time for a request is short, also for this one.
  const me = await eventually('there is a lease', async () => {
    const { status, body } = await a.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
    return status === 201 && (body as LeaseHandle);
  });
  proxy.suspend();
  // To A nothing has answered for more than 4/3 of the TTL; B's client keeps the lease alive all the while.
  const answers = new Set<number>();
  await throughout(
    'B serves the lease',
    async () => {
      const [ours, theirs] = await Promise.all([a.heartbeat(me), b.heartbeat(me)]);
      answers.add(ours.status);
      return theirs.status === 200;
    },
    { forMs: 2 * TTL_MS },
  );
  expect([...answers]).toEqual([503]);
  proxy.heal();
  await eventually('A serves it, too', async () => (await a.heartbeat(me)).status === 200);
});

test('a lease that has ended is 410 at every replica (C11)', async () => {
  await using pair = await startPair();
  const me = await pair.a.createLease({ ttlMs: LONG_TTL_MS });
  await expireSession(pair.b, me.leaseId);
  for (const replica of [pair.a, pair.b]) expect((await replica.heartbeat(me)).status).toBe(410);
});

test('an event stream outlives its client by no more than maxMs, and the lease by no more than the TTL (C12)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  const { hostname, port } = new URL(pair.a.url);
  // A client whose machine has lost its power: the connection stays open, and nobody is there.
  const silent = connect({ host: hostname, port: Number(port) });
  await once(silent, 'connect');
  silent.pause();
  silent.write(
    `GET /v1/leases/self/events?maxMs=2000 HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAccept: text/event-stream\r\nLease-Token: ${me.leaseToken}\r\n\r\n`,
  );
  const startedAt = performance.now();
  const path = witness.layout.lease('default', me.leaseId);
  const gone = eventually('the lease has ended', async () => (await witness.control.exists(path)) === undefined);
  await gone;
  const livedMs = performance.now() - startedAt;
  silent.destroy();
  expect(livedMs).toBeGreaterThan(2_000);
  expect(livedMs).toBeLessThan(2_000 + TTL_MS + 2 * timing.tickMs + scaled(2_000));
});

test('a lease that ends while it asks for a lock leaves no directory behind (C13)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: LONG_TTL_MS });
  const create = vi.spyOn(LeaseSession.prototype, 'create').mockImplementationOnce(async function (
    this: LeaseSession,
    ...args
  ) {
    await expireSession(pair.b, me.leaseId);
    return this.create(...args);
  });
  expect((await pair.a.acquire('never-used', me, { waitMs: 100 })).status).toBe(410);
  expect(create).toHaveBeenCalled();
  create.mockRestore();
  expect((await pair.a.acquire('never-used', me)).status).toBe(410);
  expect(await witness.control.exists(witness.directory('never-used'))).toBeUndefined();
});
