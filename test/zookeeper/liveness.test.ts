/**
 * A connection that is dead is found dead in time, and one that lives is not let die. Against a server that misbehaves.
 */
import { describe, expect, it, vi } from 'vitest';
import { eventually, passed, throughout } from '../support/eventually.js';
import { FakeServer, notification } from '../support/zookeeper/fake-server.js';
import { Noise } from '../support/noise.js';
import { TestConnection, TestControl, within } from '../support/zookeeper/sessions.js';

const TIMEOUT_MS = 900;

describe('a control connection', () => {
  it('is given up when nothing arrives for two thirds of the timeout, so that a third is left to reconnect (defect 2)', async () => {
    await using server = await FakeServer.start({
      sessionTimeoutMs: TIMEOUT_MS,
      onRequest: () => server.connections.length === 1,
    });
    using connection = await TestConnection.open(server.connectString);
    const openedAt = performance.now();
    using noise = new Noise();
    const lastAnswerAt = server.connection.openedAt; // or later
    await eventually('it noticed', () => connection.life.includes('disconnected'));
    expect(performance.now() - lastAnswerAt).toBeGreaterThan(TIMEOUT_MS * 0.6);
    expect(performance.now() - openedAt - noise.ms).toBeLessThan(TIMEOUT_MS);
    await eventually('it is connected again', () => connection.connected);
    expect(connection.life).toEqual(['connected', 'disconnected', 'connected']);
  });

  it('tries the next server when one takes the connection and never answers the handshake (defect 3)', async () => {
    await using silent = await FakeServer.start({ onHandshake: () => true });
    await using healthy = await FakeServer.start();
    using connection = new TestConnection(`${silent.connectString}`, {
      servers: [
        { host: '127.0.0.1', port: silent.port },
        { host: '127.0.0.1', port: healthy.port },
      ],
      handshakeTimeoutMs: 1_500,
    });
    connection.connect();
    await eventually('it is connected', () => connection.connected);
    expect(silent.handshakes).toHaveLength(1);
    expect(healthy.handshakes).toHaveLength(1);
  });

  it('pings on its own timer, however many events the server pushes (defect 4)', async () => {
    await using server = await FakeServer.start({ sessionTimeoutMs: TIMEOUT_MS });
    using connection = await TestConnection.open(server.connectString);
    const push = setInterval(() => server.connection.send(notification(3, '/busy')), 10);
    const { openedAt } = server.connection;
    using noise = new Noise();
    try {
      await eventually('it pings', () => server.pings >= 5);
    } finally {
      clearInterval(push);
    }
    const tookMs = performance.now() - openedAt;
    expect(connection.notifications.length).toBeGreaterThan(20);
    // At least one per third of the timeout, and not many more.
    expect(tookMs - noise.ms).toBeLessThanOrEqual(TIMEOUT_MS * 2);
    expect(tookMs).toBeGreaterThan(TIMEOUT_MS);
    expect(connection.life).toEqual(['connected']);
  });

  it('gives its session up by itself when no server could be asked for 4/3 of the timeout (defect 19)', async () => {
    const server = await FakeServer.start({ sessionTimeoutMs: TIMEOUT_MS });
    using connection = await TestConnection.open(server.connectString);
    const acknowledgedAt = performance.now();
    using noise = new Noise();
    await server.stop();
    await eventually('it is given up', () => connection.ended);
    expect(connection.life).toEqual(['connected', 'disconnected', 'expired']);
    expect(performance.now() - server.connection.openedAt).toBeGreaterThan(TIMEOUT_MS);
    expect(performance.now() - acknowledgedAt - noise.ms).toBeLessThan((TIMEOUT_MS * 4) / 3 + 300);
  });

  it('counts the time to its end from the ping that was answered, not from one that was sent since', async () => {
    const timeoutMs = 4_500;
    const firstPing: { reply(): void }[] = [];
    await using server = await FakeServer.start({
      sessionTimeoutMs: timeoutMs,
      onRequest: (request) => request.opcode === 11 && firstPing.push(request) > 0,
    });
    using connection = await TestConnection.open(server.connectString);
    const pingedAt = performance.now();
    using noise = new Noise();
    await eventually('a second ping is sent', () => server.pings === 2);
    firstPing[0]?.reply();
    await passed(20); // the reply has arrived
    await server.stop();
    await eventually('it is given up', () => connection.ended);
    expect(performance.now() - pingedAt - noise.ms).toBeLessThan((timeoutMs * 4) / 3 + 250);
  });

  it('is not dropped because this process stood still: what arrived meanwhile is read first', async () => {
    await using server = await FakeServer.start({ sessionTimeoutMs: TIMEOUT_MS });
    using connection = await TestConnection.open(server.connectString);
    await eventually('the first ping is answered', () => server.pings > 0);
    server.connection.send(notification(3, '/sent-before-the-pause'));
    standStill(TIMEOUT_MS * 0.9);
    await throughout('it stays connected', () => connection.connected, { forMs: TIMEOUT_MS });
    expect(connection.life).toEqual(['connected']);
  });

  it('waits longer after each round of failures, with jitter up to the whole pause (defect 23)', async () => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.999);
    try {
      await using server = await FakeServer.start({ onHandshake: ({ connection }) => (connection.close(), true) });
      using connection = new TestConnection(server.connectString);
      connection.connect();
      await eventually('five attempts', () => server.connections.length >= 5);
      const at = server.connections.map(({ openedAt }) => openedAt);
      const pauses = at.slice(1).map((time, i) => time - (at[i] as number));
      for (const [i, pause] of pauses.slice(0, 4).entries()) expect(pause).toBeGreaterThanOrEqual(50 * 2 ** i * 0.9);
      random.mockReturnValue(0);
      const before = server.connections.length;
      await eventually('without luck of the draw there is no pause', () => server.connections.length > before + 5);
    } finally {
      random.mockRestore();
    }
  });

  it('backs off also from a server that grants sessions and drops them at once', async () => {
    await using server = await FakeServer.start({
      onHandshake: (handshake) => {
        handshake.accept();
        handshake.connection.socket.end();
        return true;
      },
    });
    using connection = new TestConnection(server.connectString);
    connection.connect();
    await eventually('it was granted and lost', () => connection.life.includes('disconnected'));
    await passed(1_000);
    expect(server.connections.length).toBeLessThan(25);
    await eventually('it tries again', () => server.connections.length > 1);
  });
});

describe('a control session', () => {
  it('opens a new session after the old one was given up, and says so', async () => {
    const server = await FakeServer.start({ sessionTimeoutMs: TIMEOUT_MS });
    const port = server.port;
    await using control = await TestControl.open(`127.0.0.1:${port}`);
    let sessions = 0;
    control.onNewSession(() => (sessions += 1));
    const first = control.sessionId;
    server.script.onHandshake = (handshake) => {
      if (handshake.sessionId === 0n) return false;
      handshake.expire();
      return true;
    };
    server.cut();
    await eventually('there is a new session', () => sessions === 1 && control.connected);
    expect(control.sessionId).not.toBe(first);
    await expect(control.exists('/x', within())).resolves.toBeDefined();
    await control.stop();
    await server.stop();
  });
});

/** Blocks the event loop, as a long garbage collection does. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
