/**
 * The end of a session and of a connection: told to the server where that is possible, and nothing is left behind here.
 */
import { describe, expect, it } from 'vitest';
import { LeaseExpiredError } from '../../../src/errors.js';
import { NoReplyError } from '../../../src/zookeeper/errors.js';
import { OPCODE } from '../../../src/zookeeper/operations.js';
import { create, exists, getData, remove } from '../../../src/zookeeper/operations/nodes.js';
import { eventually, passed, throughout } from '../../support/eventually.js';
import { FakeServer } from '../../support/zookeeper/fake-server.js';
import { Noise } from '../../support/noise.js';
import {
  NOTHING_SENT,
  OPEN_ACL,
  OUTCOME_UNKNOWN,
  TestConnection,
  TestControl,
  attachLease,
  rejection,
  within,
} from '../../support/zookeeper/sessions.js';

describe('closing', () => {
  it('a connection that was never made fails as "not sent" (defect 17)', async () => {
    using connection = new TestConnection('127.0.0.1:1');
    const startedAt = performance.now();
    using noise = new Noise();
    expect(await rejection(connection.closeSession(within()))).toMatchObject(NOTHING_SENT);
    expect(performance.now() - startedAt - noise.ms).toBeLessThan(100); // there is nothing to wait for
    expect(connection.life).toEqual(['closed']);
    const control = TestControl.start('127.0.0.1:1');
    await control.stop();
    await control.stop();
    expect(control.connected).toBe(false);
  });

  it('sends closeSession behind the requests in flight, and once however often it is asked for (defect 17)', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    const last = connection.submit(remove('/x', -1), within());
    await Promise.all([connection.closeSession(within()), connection.closeSession(within())]);
    await expect(last).resolves.toBeUndefined();
    expect(server.opcodes()).toEqual([OPCODE.delete, OPCODE.closeSession]);
    expect(connection.life).toEqual(['connected', 'closed']);
    expect(await rejection(connection.submit(exists('/x'), within()))).toMatchObject(NOTHING_SENT);
  });

  it('says that the session may live on when the reply is lost or late (defect 17)', async () => {
    await using server = await FakeServer.start({ onRequest: ({ opcode }) => opcode === OPCODE.closeSession });
    using cut = await TestConnection.open(server.connectString);
    const closing = cut.closeSession(within());
    await eventually('it was sent', () => server.opcodes().includes(OPCODE.closeSession));
    server.cut();
    expect(await rejection(closing)).toMatchObject(OUTCOME_UNKNOWN);
    using late = await TestConnection.open(server.connectString);
    expect(await rejection(late.closeSession(within(100)))).toMatchObject(OUTCOME_UNKNOWN);
    expect(late.ended).toBe(true);
  });

  it('is bounded for a control session whose ensemble is gone (defect 17)', async () => {
    const server = await FakeServer.start();
    const control = await TestControl.open(server.connectString);
    await server.stop();
    await eventually('the cut was noticed', () => !control.connected);
    const startedAt = performance.now();
    using noise = new Noise();
    await control.stop(within(500));
    expect(performance.now() - startedAt - noise.ms).toBeLessThan(600);
    const connections = server.connections.length;
    await throughout('it stays away', () => server.connections.length === connections);
  });
});

describe('a resumed session', () => {
  it('that comes back with another id is over: a lease expires, a control session begins anew (defect 18)', async () => {
    await using server = await FakeServer.start({
      onHandshake: (handshake) => (handshake.accept({ id: server.nextSessionId++ }), true),
    });
    const identity = { id: Buffer.from('0000000000000042', 'hex'), password: Buffer.alloc(16) };
    expect(await rejection(attachLease(server.connectString, identity))).toBeInstanceOf(LeaseExpiredError);

    await using control = await TestControl.open(server.connectString);
    const events: string[] = [];
    let sessions = 0;
    await control.watches.getData('/x', ({ type }) => void events.push(type), within());
    control.onNewSession(() => (sessions += 1));
    server.cut();
    await eventually('a new session begins', () => sessions === 1 && control.connected);
    expect(events).toEqual(['reset']);
  });
});

describe('an ended connection', () => {
  it('leaves no timer and no socket behind, in whatever state it ended', async () => {
    await using server = await FakeServer.start();
    const { connectString } = server;
    const before = resources();
    const connected = await TestConnection.open(connectString);
    const connecting = new TestConnection(connectString);
    connecting.connect();
    const backingOff = new TestConnection('127.0.0.1:1');
    backingOff.connect();
    await passed(100);
    const interrupted = connected.submit(getData('/x', false), within());
    for (const connection of [connected, connecting, backingOff]) connection.detach();
    expect(await rejection(interrupted)).toBeInstanceOf(NoReplyError);
    await eventually(
      'all is released',
      () => resources() <= before && server.connections.every(({ socket }) => socket.destroyed),
    );
    expect(connected.life).toEqual(['connected', 'closed']);
    connected.connect();
    await throughout('it never comes back', () => server.connections.length === 2);
  });

  it('is not reused: creating on it fails as "not sent"', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    connection.detach();
    expect(
      await rejection(connection.submit(create('/x', Buffer.alloc(0), 'persistent', OPEN_ACL), within())),
    ).toMatchObject(NOTHING_SENT);
    expect(() => connection.queue()).toThrow('submit');
    expect(() => connection.close()).toThrow('closeSession');
  });
});

/** Timers and sockets of this process. */
function resources(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name === 'TCPSocketWrap').length;
}
