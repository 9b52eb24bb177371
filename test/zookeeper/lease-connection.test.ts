/** The connection of a lease against a server that misbehaves: one attempt, bounded, and honest about what it met. */
import { describe, expect, it } from 'vitest';
import { LeaseExpiredError } from '../../src/errors.js';
import { LeaseSession, wasRefused } from '../../src/zookeeper/lease-session.js';
import { eventually, throughout } from '../support/eventually.js';
import { Writer } from '../../src/zookeeper/connection/wire.js';
import { FakeServer } from '../support/zookeeper/fake-server.js';
import { Noise } from '../support/noise.js';
import {
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  attachLease,
  ensembleOf,
  openLease,
  rejection,
  within,
} from '../support/zookeeper/sessions.js';

describe('a lease session', () => {
  it('that could not be opened is not called expired: it has never been', async () => {
    await using server = await FakeServer.start({ onHandshake: (handshake) => (handshake.expire(), true) });
    expect(await rejection(openLease(server.connectString))).toMatchObject({
      ...NOTHING_SENT,
      message: expect.stringContaining('a new session') as string,
    });
  });

  it('attaches within its deadline or fails, however many servers say nothing', async () => {
    await using silent = await FakeServer.start({ onHandshake: () => true });
    await using another = await FakeServer.start({ onHandshake: () => true });
    await using third = await FakeServer.start({ onHandshake: () => true });
    const all = [silent, another, third];
    const everywhere = all.map(({ connectString }) => connectString).join();
    const identity = { id: Buffer.from('0000000000000042', 'hex'), password: Buffer.alloc(16) };
    const startedAt = performance.now();
    using noise = new Noise();
    const error = await rejection(
      attachLease(everywhere, identity, { deadline: within(3_000), timeoutMs: 20_000 }, { handshakeTimeoutMs: 2_000 }),
    );
    expect(performance.now() - startedAt - noise.ms).toBeLessThan(3_250);
    expect(error).toMatchObject(NOTHING_SENT);
    expect(wasRefused(error)).toBe(false);
    const sockets = all.flatMap(({ connections }) => connections.map(({ socket }) => socket));
    expect(sockets).toHaveLength(2);
    await eventually('its sockets are closed', () => sockets.every((each) => each.destroyed || each.readableEnded));
    const late = { deadline: performance.now() - 1 };
    expect(await rejection(attachLease(everywhere, identity, late))).toMatchObject(NOTHING_SENT);
  });

  it('knows a server that hangs up from one that says nothing and from one that is not there', async () => {
    await using refusing = await FakeServer.start({ onHandshake: ({ connection }) => (connection.close(), true) });
    expect(wasRefused(await rejection(openLease(refusing.connectString)))).toBe(true);
    await using silent = await FakeServer.start({ onHandshake: () => true });
    expect(wasRefused(await rejection(openLease(silent.connectString, {}, { handshakeTimeoutMs: 100 })))).toBe(false);
    expect(wasRefused(await rejection(openLease('127.0.0.1:1')))).toBe(false);
  });

  it('remembers that a server hung up when the others are not there at all: making room may help', async () => {
    await using refusing = await FakeServer.start({ onHandshake: ({ connection }) => (connection.close(), true) });
    for (const affinity of [0, 1]) {
      expect(wasRefused(await rejection(openLease(`${refusing.connectString},127.0.0.1:1`, { affinity })))).toBe(true);
    }
  });

  it('goes to the next server when its own is gone, and begins at the one its affinity names in every order of the servers', async () => {
    await using a = await FakeServer.start();
    await using b = await FakeServer.start();
    const everywhere = `${a.connectString},${b.connectString}`;
    const servers = ensembleOf(everywhere).servers.toSorted((one, two) =>
      `${one.host}:${one.port}` < `${two.host}:${two.port}` ? -1 : 1,
    );
    const orders = [everywhere, `${b.connectString},${a.connectString}`];
    for (const [order, affinity] of orders.flatMap((order) => [0, 1, 2, 7, -1].map((each) => [order, each] as const))) {
      const lease = await openLease(order, { affinity });
      const expected = servers[((affinity % 2) + 2) % 2];
      const used = expected?.port === a.port ? a : b;
      expect(used.connections.at(-1)?.socket.destroyed).toBe(false);
      lease.detach();
      await eventually('it is closed', () =>
        used.connections.every(({ socket }) => socket.destroyed || socket.readableEnded),
      );
    }
    await a.stop();
    for (const affinity of [0, 1]) (await openLease(everywhere, { affinity })).detach();
  });

  it('ends when a request is not answered in time, because it has no pings that would find it dead', async () => {
    await using server = await FakeServer.start({ onRequest: () => true });
    const lease = await openLease(server.connectString);
    let ended = 0;
    lease.onEnded(() => (ended += 1));
    expect(await rejection(lease.sync('/', within(100)))).toMatchObject(NOTHING_SENT);
    await eventually('it has ended', () => lease.ended && ended === 1);
    await throughout('it stays away', () => server.connections.length === 1 && server.pings === 0);
  });

  it('is prolonged by what is answered within half the timeout after the last that prolonged it, and by nothing later (C5)', async () => {
    const delays = [0];
    await using server = await FakeServer.start({
      onRequest: (request) => (
        setTimeout(() => request.reply({ body: new Writer().string('/').finish() }), delays.shift() ?? 0),
        true
      ),
    });
    const timeoutMs = 4_000;
    const lease = await openLease(server.connectString, { timeoutMs });
    const opened = lease.touchedAt;
    await lease.sync('/', within());
    const touched = lease.touchedAt;
    expect(touched).toBeGreaterThan(opened);
    // Sent in time and answered too late: nobody knows when the server had it.
    delays[0] = timeoutMs / 2 + 100;
    await lease.sync('/', within());
    expect(lease.touchedAt).toBe(touched);
    expect(lease.overdue).toBe(true);
    await lease.sync('/', within());
    expect(lease.touchedAt).toBe(touched);
    lease.detach();
  });

  it('waits for a server no longer than the lease can bear, and the whole replica tries that one last from then on (C42)', async () => {
    await using server = await FakeServer.start({ onRequest: () => true });
    await using other = await FakeServer.start();
    const ensemble = ensembleOf(`${server.connectString},${other.connectString}`);
    const affinity = ensemble.servers.findIndex(({ port }) => port === server.port);
    const lease = await LeaseSession.open(ensemble, { timeoutMs: 1_200, affinity, deadline: within() });
    lease.keepUp();
    const sentAt = performance.now();
    using noise = new Noise();
    expect(await rejection(lease.sync('/', within()))).toMatchObject(NOTHING_SENT);
    expect(performance.now() - sentAt).toBeGreaterThan(300);
    expect(performance.now() - sentAt - noise.ms).toBeLessThan(700);
    await eventually('it has ended', () => lease.ended);
    expect(ensemble.order.of(affinity)[0]?.port).toBe(other.port);
  });

  it('ends, and fails what is in flight, when the server drops it: another replica has attached', async () => {
    await using server = await FakeServer.start({ onRequest: () => true });
    const lease = await openLease(server.connectString);
    const write = lease.delete('/x', -1, within());
    await eventually('it was sent', () => server.received.length === 1);
    server.cut();
    expect(await rejection(write)).toMatchObject(OUTCOME_UNKNOWN);
    expect(lease.ended).toBe(true);
    expect(await rejection(lease.delete('/x', -1, within()))).toMatchObject(NOTHING_SENT);
  });

  it('is expired only when the ensemble says so', async () => {
    await using server = await FakeServer.start({ onRequest: (request) => (request.reply({ error: -112 }), true) });
    const lease = await openLease(server.connectString);
    expect(await rejection(lease.sync('/', within()))).toBeInstanceOf(LeaseExpiredError);
    expect(lease.ended).toBe(true);
  });

  it('is not ended by SESSION_MOVED, which is about the request', async () => {
    await using server = await FakeServer.start({ onRequest: (request) => (request.reply({ error: -118 }), true) });
    const lease = await openLease(server.connectString);
    expect(await rejection(lease.sync('/', within()))).toMatchObject({
      code: 'zookeeper-unavailable',
      reason: 'SESSION_MOVED',
    });
    lease.detach();
  });
});
