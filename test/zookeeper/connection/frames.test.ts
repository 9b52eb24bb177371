/** Whatever bytes a server sends, the worst that happens is the end of that connection. */
import { describe, expect, it } from 'vitest';
import { OPCODE } from '../../../src/zookeeper/operations.js';
import { create, exists, getData, remove } from '../../../src/zookeeper/operations/nodes.js';
import { sync } from '../../../src/zookeeper/operations/session.js';
import { NoReplyError, ZooKeeperError } from '../../../src/zookeeper/errors.js';
import { Writer } from '../../../src/zookeeper/connection/wire.js';
import { eventually } from '../../support/eventually.js';
import {
  FakeServer,
  connectResponse,
  frame,
  notification,
  reply,
  type FakeRequest,
} from '../../support/zookeeper/fake-server.js';
import { OPEN_ACL, TestConnection, TestControl, rejection, within } from '../../support/zookeeper/sessions.js';

describe('the byte stream', () => {
  it('forgets half a frame of the last connection before the next handshake (defect 1)', async () => {
    await using server = await FakeServer.start({
      onRequest(request) {
        if (server.connections.length > 1 || request.opcode !== OPCODE.getData) return false;
        request.connection.socket.end(reply(request.xid, { body: Buffer.alloc(500) }).subarray(0, 100));
        return true;
      },
    });
    using connection = await TestConnection.open(server.connectString);
    await rejection(connection.submit(getData('/x', false), within()));
    await eventually('it is connected again', () => connection.connected);
    expect(server.connections).toHaveLength(2);
    await expect(connection.submit(exists('/x'), within())).resolves.toBeDefined();
  });

  const malformed: Record<string, (request: FakeRequest) => Buffer> = {
    'a negative length': () => new Writer().int(-5).finish(),
    'a huge length': () => new Writer().int(0x7fffffff).finish(),
    'an empty frame': () => frame(Buffer.alloc(0)),
    'a frame too short for a header': () => frame(Buffer.alloc(10)),
    'a body that ends too early': ({ xid }) => reply(xid, { body: Buffer.alloc(5) }),
    'a string that is longer than its frame': ({ xid }) => reply(xid, { body: new Writer().int(1_000).finish() }),
    'a length below -1 inside the body': ({ xid }) =>
      reply(xid, { body: new Writer().int(-2).raw(Buffer.alloc(80)).finish() }),
    'an event without a path': () => reply(-1, { body: new Writer().int(3).int(3).finish() }),
    'an xid out of order': ({ xid }) => reply(xid + 1, { body: Buffer.alloc(80) }),
    'a reply to nothing': ({ xid }) =>
      Buffer.concat([reply(xid, { body: new Writer().int(0).raw(Buffer.alloc(68)).finish() }), reply(77)]),
    'a zxid beyond 2^53': ({ xid }) => frame(new Writer().int(xid).int(0x7fffffff).int(0).int(0).finish()),
  };
  for (const [what, bytes] of Object.entries(malformed)) {
    it(`ends the connection and nothing else on ${what} (defect 9)`, async () => {
      await using server = await FakeServer.start({
        onRequest(request) {
          if (server.connections.length > 1 || request.opcode !== OPCODE.getData) return false;
          request.connection.send(bytes(request));
          return true;
        },
      });
      using connection = await TestConnection.open(server.connectString);
      const outcome = await connection.submit(getData('/x', false), within(5_000)).catch((error: unknown) => error);
      if (what !== 'a reply to nothing') expect(outcome).toBeInstanceOf(NoReplyError);
      await eventually('it is connected again', () => server.connections.length === 2 && connection.connected);
      expect(connection.faults).toHaveLength(1);
      await expect(connection.submit(exists('/x'), within())).resolves.toBeDefined();
    });
  }

  it.each(['', 'short', 'nonsense that is long enough to be a record of some kind, but is none'])(
    'ends the connection when the handshake is answered by %j (defect 9)',
    async (text) => {
      await using server = await FakeServer.start({
        onHandshake({ connection }) {
          if (server.connections.length > 1) return false;
          connection.send(frame(Buffer.from(text)));
          return true;
        },
      });
      const failures: (Error | undefined)[] = [];
      const failed = (_server: unknown, cause: Error | undefined): void => void failures.push(cause);
      using connection = new TestConnection(server.connectString, {}, { failed });
      connection.connect();
      await eventually(
        'the second attempt is connected',
        () => connection.connected && server.connections.length === 2,
      );
      expect(failures.map((cause) => cause?.message)).toEqual([expect.stringContaining("not ZooKeeper's protocol")]);
      expect(connection.faults).toEqual([]); // an attempt that came to nothing is told of as that
    },
  );

  it('understands a handshake with and without the read-only byte (defect 28)', async () => {
    for (const readOnly of [undefined, false, true]) {
      await using server = await FakeServer.start({
        onHandshake: ({ connection }) => (connection.send(connectResponse({ readOnly })), true),
      });
      using connection = await TestConnection.open(server.connectString);
      await expect(connection.submit(exists('/x'), within())).resolves.toBeDefined();
    }
  });
});

describe('a reply', () => {
  it.each([-127, -125, -124, -122, -120, -118, -7, -1, -31_337, 12])(
    'with the code %i is an error like any other (defect 7)',
    async (code) => {
      await using server = await FakeServer.start({
        onRequest: (request) => request.path === '/bad' && (request.reply({ error: code }), true),
      });
      using connection = await TestConnection.open(server.connectString);
      const error = await rejection(connection.submit(getData('/bad', false), within()));
      expect(error).toBeInstanceOf(ZooKeeperError);
      expect(error).toMatchObject({ number: code, outcome: 'not-applied' });
      await expect(connection.submit(exists('/good'), within())).resolves.toBeDefined();
      expect(server.connections).toHaveLength(1);
    },
  );

  it('is read even when the listener of an event before it in the same burst throws (defect 8)', async () => {
    await using server = await FakeServer.start({
      onRequest(request) {
        if (request.opcode !== OPCODE.delete) return false;
        request.connection.send(notification(2, '/x'), reply(request.xid));
        return true;
      },
    });
    const notification_ = (): void => {
      throw new Error('a bug in a listener');
    };
    const connected = notification_;
    using connection = await TestConnection.open(server.connectString, {}, { notification: notification_, connected });
    await expect(connection.submit(remove('/x', -1), within())).resolves.toBeUndefined();
    expect(connection.faults.map(String)).toEqual(Array(2).fill('Error: a bug in a listener'));
    expect(server.connections).toHaveLength(1);
  });

  it('is also read when the wait for it fails in the caller (defect 8)', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    const first = connection.submit(exists('/x'), within()).then(() => {
      throw new Error('a bug in a caller');
    });
    const second = connection.submit(exists('/y'), within());
    await expect(first).rejects.toThrow('a bug in a caller');
    await expect(second).resolves.toBeDefined();
  });

  it('to an operation that the library does not know is read like the others (defect 27)', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    await expect(connection.submit(sync('/x'), within())).resolves.toBeGreaterThan(0);
    const created = await connection.submit(create('/x', Buffer.alloc(0), 'container', OPEN_ACL), within());
    expect(created.path).toBe('/x');
    expect(server.connections).toHaveLength(1);
  });

  it('does not turn the session back to an older zxid, nor to 0 or -1 (defect 20)', async () => {
    const zxids = [50, 0, -1, 49];
    await using server = await FakeServer.start({
      onRequest(request) {
        if (request.opcode !== OPCODE.delete) return false;
        request.reply({ zxid: zxids.shift() ?? 1, error: -127 });
        return true;
      },
    });
    using connection = await TestConnection.open(server.connectString);
    for (let i = 0; i < 4; i += 1) await rejection(connection.submit(remove('/x', -1), within()));
    expect(connection.lastZxid).toBe(50);
    server.cut();
    await eventually('it is connected again', () => server.handshakes.length === 2);
    expect(server.handshakes[1]?.lastZxid).toBe(50);
  });

  it('to a request that was not sent yet ends the connection: it cannot be an answer', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    await connection.submit(exists('/x'), within());
    const { xid } = connection;
    const early = connection.submit(remove('/x', -1), within());
    connection.onSocketData(reply(xid));
    expect(await rejection(early)).toMatchObject({ name: 'NoReplyError', maybeApplied: false });
    await eventually('it is connected again', () => server.connections.length === 2 && connection.connected);
    expect(server.opcodes(server.connections[0])).not.toContain(OPCODE.delete);
  });
});

describe('an xid', () => {
  it('is 1 for the first request (defect 5)', async () => {
    await using server = await FakeServer.start();
    await using control = await TestControl.open(server.connectString);
    await control.exists('/x', within());
    expect(server.received[0]).toMatchObject({ opcode: OPCODE.exists, xid: 1 });
  });

  it('starts again at 1 before it overflows (defect 6)', async () => {
    await using server = await FakeServer.start();
    using connection = await TestConnection.open(server.connectString);
    connection.xid = 2 ** 31 - 1;
    await Promise.all(['/a', '/b', '/c'].map((path) => connection.submit(exists(path), within())));
    expect(server.received.map(({ xid }) => xid)).toEqual([2 ** 31 - 1, 1, 2]);
    expect(connection.requests.inFlight).toBe(0);
  });
});
