import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../eventually.js';
import { startTcpProxy } from './tcp-proxy.js';

const CREATE = 1;
const GET_DATA = 4;

describe('the TCP proxy', () => {
  it('passes bytes both ways and counts them', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    await eventually('the handshake comes back', () => client.received.equals(handshake()));
    expect(proxy.counters).toMatchObject({ accepted: 1, refused: 0, bytes: { toZooKeeper: 12, fromZooKeeper: 12 } });
    expect(proxy.openConnections).toBe(1);
    client.socket.destroy();
    await eventually('the connection is forgotten', () => proxy.openConnections === 0);
  });

  it('passes what is not framed, such as a four letter word', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(Buffer.from('srvr'));
    await eventually('the word comes back', () => client.received.toString() === 'srvr');
  });

  it('holds one direction back and then passes it on in order', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    await eventually('the handshake comes back', () => client.received.length === 12);
    proxy.pause('fromZooKeeper');
    for (let xid = 1; xid <= 50; xid++) client.send(frame(xid, CREATE));
    await eventually('all requests arrive', () => peer.received.length === 51 * 12);
    await throughout('no answer comes', () => client.received.length === 12);
    expect(proxy.heldBytes('fromZooKeeper')).toBe(50 * 12);
    proxy.resume('fromZooKeeper');
    await eventually('all answers come', () => client.received.length === 51 * 12);
    expect(client.received).toEqual(peer.received);
  });

  it('bounds what it holds back: the sender feels a full window', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port, framed: false });
    proxy.pause('toZooKeeper');
    const client = await dial(proxy.port);
    const sent = 64 * 1024 * 1024;
    client.send(Buffer.alloc(sent, 7));
    await eventually('the bound is reached', () => proxy.heldBytes() > 1024 * 1024);
    await throughout('no more is read', () => proxy.heldBytes() < 3 * 1024 * 1024);
    proxy.resume();
    await eventually('everything arrives after all', () => peer.receivedBytes === sent);
  });

  it('keeps connections open while suspended, new ones too', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const early = await dial(proxy.port);
    proxy.suspend();
    const late = await dial(proxy.port);
    early.send(handshake());
    late.send(handshake());
    await throughout('nothing passes', () => peer.received.length === 0 && proxy.openConnections === 2);
    expect(peer.connections).toBe(1);
    proxy.resume();
    await eventually('both are answered', () => early.received.length === 12 && late.received.length === 12);
  });

  it('delays one direction without changing the order', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    proxy.delay('fromZooKeeper', 150);
    const start = performance.now();
    client.send(handshake());
    for (let xid = 1; xid <= 10; xid++) client.send(frame(xid, GET_DATA));
    await eventually('the answers come', () => client.received.length === 11 * 12);
    expect(performance.now() - start).toBeGreaterThanOrEqual(100);
    expect(client.received).toEqual(peer.received);
  });

  it('cuts every connection, and refuses new ones until told otherwise', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    proxy.cut();
    await eventually('the client notices', () => client.closed());
    await eventually('the server notices', () => peer.open === 0);
    proxy.refuse();
    const refused = await dial(proxy.port);
    await eventually('the refused one is closed', () => refused.closed());
    expect(proxy.counters.refused).toBe(1);
    proxy.accept();
    const accepted = await dial(proxy.port);
    accepted.send(handshake());
    await eventually('it is served again', () => accepted.received.length === 12);
  });

  it('cuts in the middle of a frame', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    await eventually('the handshake comes back', () => client.received.length === 12);
    const cut = proxy.cutMidFrame();
    client.send(frame(1, GET_DATA));
    await cut;
    await eventually('the client is cut off', () => client.closed());
    expect(client.received.length).toBe(12 + 6);
  });

  it('loses the answer to one request after the server has got it, and nothing before', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    const lost = proxy.loseReply(CREATE);
    client.send(frame(1, GET_DATA));
    client.send(frame(2, CREATE));
    await lost;
    await eventually('the client is cut off', () => client.closed());
    expect(client.received).toEqual(Buffer.concat([handshake(), frame(1, GET_DATA)]));
    expect(peer.received).toEqual(Buffer.concat([handshake(), frame(1, GET_DATA), frame(2, CREATE)]));
  });

  it('loses a request before the server has got it', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    await eventually('the handshake comes back', () => client.received.length === 12);
    const lost = proxy.loseRequest(CREATE);
    client.send(frame(1, CREATE));
    await lost;
    await eventually('the server is cut off', () => peer.open === 0);
    expect(peer.received).toEqual(handshake());
  });

  it('does not tell a partitioned side that the other one is gone', async () => {
    await using peer = await startPeer();
    await using proxy = await startTcpProxy({ port: peer.port });
    const client = await dial(proxy.port);
    client.send(handshake());
    await eventually('the handshake comes back', () => client.received.length === 12);
    proxy.suspend();
    peer.hangUp();
    await throughout('the client sees nothing', () => !client.closed());
    proxy.resume();
    await eventually('the client learns it afterwards', () => client.closed());
  });
});

/**
 * A frame as a request has it: length, xid, opcode. The peer sends it back, and then it reads as the answer to that
 * xid.
 */
function frame(xid: number, opcode: number): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeInt32BE(8, 0);
  bytes.writeInt32BE(xid, 4);
  bytes.writeInt32BE(opcode, 8);
  return bytes;
}

function handshake(): Buffer {
  return frame(0, 0);
}

/** A server that sends back what it gets. */
async function startPeer() {
  const sockets = new Set<Socket>();
  let chunks: Buffer[] = [];
  const peer = {
    port: 0,
    connections: 0,
    receivedBytes: 0,
    get open(): number {
      return sockets.size;
    },
    get received(): Buffer {
      chunks = [Buffer.concat(chunks)];
      return chunks[0] ?? Buffer.alloc(0);
    },
    hangUp(): void {
      for (const socket of sockets) socket.destroy();
    },
    async [Symbol.asyncDispose](): Promise<void> {
      this.hangUp();
      server.close();
      await once(server, 'close');
    },
  };
  const server = createServer((socket) => {
    peer.connections += 1;
    sockets.add(socket);
    socket.on('data', (chunk) => {
      peer.receivedBytes += chunk.length;
      if (peer.receivedBytes < 1024 * 1024) chunks.push(chunk);
      socket.write(chunk);
    });
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  peer.port = (server.address() as AddressInfo).port;
  return peer;
}

async function dial(port: number) {
  const socket = connect({ port, host: '127.0.0.1' });
  let received = Buffer.alloc(0);
  socket.on('data', (chunk) => {
    if (received.length < 1024 * 1024) received = Buffer.concat([received, chunk]);
  });
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return {
    socket,
    send: (bytes: Buffer): void => void socket.write(bytes),
    closed: (): boolean => socket.closed || socket.readableEnded,
    get received(): Buffer {
      return received;
    },
  };
}
