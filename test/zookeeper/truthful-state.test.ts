/** What is said about a request is true: not sent, may be done, refused. And nothing is sent in the wrong order. */
import { describe, expect, it } from 'vitest';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { exists, remove } from '../../src/zookeeper/operations/nodes.js';
import { eventually, passed } from '../support/eventually.js';
import { FakeServer, notification, reply, type FakeRequest, type Handshake } from '../support/zookeeper/fake-server.js';
import { Noise } from '../support/noise.js';
import {
  NOTHING_SENT,
  OUTCOME_UNKNOWN,
  TestConnection,
  TestControl,
  attachLease,
  openLease,
  rejection,
  within,
} from '../support/zookeeper/sessions.js';

describe('a request', () => {
  it('fails at once on a connection that is not there, and at its deadline on a session (defect 10)', async () => {
    const server = await FakeServer.start();
    const { connectString } = server;
    await server.stop();
    using connection = new TestConnection(connectString);
    connection.connect();
    expect(await rejection(connection.submit(remove('/x', -1), within()))).toMatchObject(NOTHING_SENT);

    await using control = TestControl.start(connectString);
    const startedAt = performance.now();
    using noise = new Noise();
    expect(await rejection(control.delete('/x', -1, within(200)))).toMatchObject(NOTHING_SENT);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(100);
    expect(performance.now() - startedAt - noise.ms).toBeLessThan(1_000);
  });

  it('fails when the session expires while it waits for a connection, by its deadline at the latest (defect 10)', async () => {
    await using server = await FakeServer.start();
    await using control = await TestControl.open(server.connectString);
    const first = control.sessionId;
    server.script.onHandshake = (handshake) => {
      if (handshake.sessionId !== 0n) handshake.expire();
      return true; // and a new session is not granted either
    };
    server.cut();
    await eventually('the cut was noticed', () => !control.connected);
    const waiting = control.delete('/x', -1, within(500));
    expect(await rejection(waiting)).toMatchObject(NOTHING_SENT);
    await eventually('it has come back', () => server.handshakes.some(({ sessionId }) => sessionId === first));
  });

  it('that was sent and cut is "may be done" when it writes and "not done" when it reads (defect 10)', async () => {
    await using server = await FakeServer.start({ onRequest: ({ opcode }) => opcode !== OPCODE.ping });
    using connection = await TestConnection.open(server.connectString);
    const write = connection.submit(remove('/x', -1), within());
    const read = connection.submit(exists('/x'), within());
    await eventually('both were sent', () => server.received.length === 2);
    server.cut();
    expect(await rejection(write)).toMatchObject(OUTCOME_UNKNOWN);
    expect(await rejection(read)).toMatchObject(NOTHING_SENT);
    expect(connection.requests.inFlight).toBe(0);
  });

  it('that is not answered fails at its deadline, and its late answer disturbs nobody', async () => {
    let held: FakeRequest | undefined;
    await using server = await FakeServer.start({
      onRequest: (request) => request.path === '/slow' && ((held = request), true),
    });
    using connection = await TestConnection.open(server.connectString);
    expect(await rejection(connection.submit(remove('/slow', -1), within(100)))).toMatchObject(OUTCOME_UNKNOWN);
    held?.reply();
    await expect(connection.submit(exists('/x'), within())).resolves.toBeDefined();
    expect(server.connections).toHaveLength(1);
  });

  it('whose deadline has passed is not sent', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    expect(await rejection(connection.submit(remove('/x', -1), performance.now()))).toMatchObject(NOTHING_SENT);
    await connection.submit(exists('/x'), within());
    expect(server.opcodes()).toEqual([OPCODE.exists]);
  });

  it('whose deadline passes in the moment before it leaves is not called unsent', async () => {
    await using server = await FakeServer.start({ onRequest: ({ opcode }) => opcode === OPCODE.delete });
    using connection = await TestConnection.open(server.connectString);
    const request = connection.submit(remove('/x', -1), within(100));
    connection.requests.sweep(performance.now() + 200); // as when this process was held up between the two
    expect(await rejection(request)).toMatchObject(OUTCOME_UNKNOWN);
    expect(server.opcodes()).toEqual([OPCODE.delete]);
  });

  it('of a session that was attached before has no number of that time: the servers would take one for the other (defect 5)', async () => {
    await using server = await FakeServer.start();
    const first = await openLease(server.connectString);
    await first.sync('/');
    const again = await attachLease(server.connectString, first.identity);
    await again.sync('/');
    const [before, after] = server.received.map(({ xid }) => xid);
    expect(before).toBe(1);
    expect(after).toBeGreaterThan(2 ** 10); // of more than two thousand million
    first.detach();
    again.detach();
  });

  it('made after the socket broke and before that was reported is not sent, and says so', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    connection.socket?.destroy();
    expect(connection.connected).toBe(false);
    expect(await rejection(connection.submit(remove('/x', -1), within()))).toMatchObject(NOTHING_SENT);
  });

  it('whose answer arrived while this process stood still is answered, though its deadline has passed', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    server.script.onRequest = ({ opcode }) => opcode === OPCODE.delete;
    const deadline = within(2_500);
    const request = connection.submit(remove('/x', -1), deadline);
    const { xid } = await eventually('it was sent', () => server.received[0]);
    await new Promise((resolve) => setImmediate(resolve)); // from here the timers come before the sockets
    server.connection.send(reply(xid));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, deadline - performance.now()) + 50);
    await expect(request).resolves.toBeUndefined();
  });

  it('is never sent a second time by itself (defect 26)', async () => {
    await using server = await FakeServer.start({
      onRequest({ opcode, connection }) {
        if (opcode !== OPCODE.create) return false;
        connection.close();
        return true;
      },
    });
    await using control = await TestControl.open(server.connectString);
    expect(
      await rejection(control.create('/queue/item-', undefined, { mode: 'persistent-sequential' }, within())),
    ).toMatchObject(OUTCOME_UNKNOWN);
    await eventually('it is connected again', () => control.connected && server.connections.length === 2);
    await control.exists('/x', within());
    expect(server.received.filter(({ opcode }) => opcode === OPCODE.create)).toHaveLength(1);
  });

  it('refused because the session expired meanwhile may be made again: nothing was done', async () => {
    await using server = await FakeServer.start({
      onRequest: (request) => request.path === '/x' && (request.reply({ error: -112 }), true),
    });
    await using control = await TestControl.open(server.connectString);
    expect(await rejection(control.delete('/x'))).toMatchObject({
      code: 'zookeeper-unavailable',
      reason: 'SESSION_EXPIRED',
    });
  });
});

describe('after a reconnect', () => {
  it('credentials go first, then the watches, then what waited (defect 11)', async () => {
    await using server = await FakeServer.start();
    const credentials = [{ scheme: 'digest', auth: Buffer.from('user:secret') }];
    await using control = await TestControl.open(server.connectString, {}, { credentials });
    await control.watches.getData('/watched', () => undefined, within());
    const handshake = await cutAndHold(server);
    const waited = Promise.all([control.delete('/waited', -1, within()), control.exists('/waited', within())]);
    handshake.accept();
    await waited;
    expect(server.connections).toHaveLength(2);
    expect(server.opcodes()).toEqual([OPCODE.auth, OPCODE.setWatches, OPCODE.delete, OPCODE.exists]);
  });

  it('an event that was missed is delivered before a read can see its cause (defect 11)', async () => {
    let watchesSet = Promise.resolve();
    await using server = await FakeServer.start({
      onRequest(request) {
        // As a server does: one thing after the other, the missed events before the reply.
        if (request.opcode === OPCODE.setWatches) {
          watchesSet = passed(50).then(() => {
            request.connection.send(notification(2, '/watched'));
            request.reply();
          });
        } else if (request.opcode === OPCODE.getData && server.connections.length === 2) {
          void watchesSet.then(() => request.answer());
        } else {
          return false;
        }
        return true;
      },
    });
    await using control = await TestControl.open(server.connectString);
    const order: string[] = [];
    await control.watches.getData('/watched', ({ type }) => void order.push(type), within());
    const handshake = await cutAndHold(server);
    const read = control.getData('/watched', within()).then(() => order.push('read'));
    handshake.accept();
    await read;
    await eventually('the event is delivered too', () => order.length === 2);
    expect(order).toEqual(['deleted', 'read']);
  });

  it('watches that the server refuses to set again end the connection, so that nobody waits in vain', async () => {
    let refused = 0;
    await using server = await FakeServer.start({
      onRequest(request) {
        if (request.opcode !== OPCODE.setWatches || refused > 0) return false;
        refused += 1;
        request.reply({ error: -127, zxid: 0 });
        return true;
      },
    });
    await using control = await TestControl.open(server.connectString);
    await control.watches.getData('/watched', () => undefined, within());
    server.cut();
    await eventually(
      'they are set at the second attempt',
      () => server.connections.length === 3 && server.opcodes().includes(OPCODE.setWatches),
    );
  });
});

/** Cuts all connections; resolves with the handshake of the next one, which is not answered yet. */
async function cutAndHold(server: FakeServer): Promise<Handshake> {
  const held: Handshake[] = [];
  server.script.onHandshake = (handshake) => held.push(handshake) > 0;
  server.cut();
  return eventually('it comes back', () => held[0]);
}
