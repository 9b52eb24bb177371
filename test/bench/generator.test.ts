/** The load generator: it reads what servers send, and what it checks can fail. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { HttpConnection, requestText } from '../../bench/generator/http-connection.js';
import type { Job, Target } from '../../bench/generator/job.js';
import { locks } from '../../bench/generator/locks.js';
import { Meter } from '../../bench/generator/meter.js';
import { queues } from '../../bench/generator/queues.js';
import { judge } from '../../bench/goals.js';
import { eventually } from '../support/eventually.js';
import { sharedZooKeeper } from '../support/start-zookeeper.js';

async function listen(onConnection: (socket: Socket) => void) {
  const server = createServer(onConnection).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => void server.close(),
  };
}

/** Answers the first request with these pieces, each when the one before has been read. */
function answering(pieces: readonly string[], bytesRead: () => number) {
  return listen((socket) => {
    socket.once('data', () => {
      void (async () => {
        let sent = 0;
        for (const piece of pieces) {
          socket.write(piece);
          sent += Buffer.byteLength(piece);
          await eventually('it is read', () => bytesRead() === sent, { everyMs: 1 });
        }
      })();
    });
  });
}

async function ask(pieces: readonly string[]) {
  let client: Socket | undefined;
  const meet = (message: unknown): void => void (client ??= (message as { socket: Socket }).socket);
  await using server = await answering(pieces, () => client?.bytesRead ?? 0);
  subscribe('net.client.socket', meet);
  const http = await HttpConnection.open(server.port).finally(() => unsubscribe('net.client.socket', meet));
  try {
    return await http.send(requestText('GET', '/', ''));
  } finally {
    http.close();
  }
}

function jobOn(
  target: Pick<Target, 'system' | 'port'>,
  rest: Pick<Job, 'scenario' | 'clients' | 'things' | 'holdMs' | 'operations'>,
): Job {
  const names = `bench-${Math.random().toString(36).slice(2)}-`;
  return {
    ...rest,
    target: { ...target, zooKeeperPort: 0, names },
    warmUpSeconds: 0,
    seconds: 0.3,
    pids: { store: process.pid },
  };
}

describe('the connection of the load generator', () => {
  it('reads a body of a given length that comes in pieces', async () => {
    const pieces = ['HTTP/1.1 200 OK\r\nContent-', 'Length: 11\r\n\r\nhello', ' world'];
    expect(await ask(pieces)).toEqual({ status: 200, body: 'hello world' });
  });

  it('reads chunks, however they are cut', async () => {
    const pieces = [
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel',
      'lo\r\n6\r\n world\r',
      '\n0\r\n\r\n',
    ];
    expect(await ask(pieces)).toEqual({ status: 200, body: 'hello world' });
  });

  it('expects no body after 204', async () => {
    expect(await ask(['HTTP/1.1 204 No Content\r\n\r\n'])).toEqual({ status: 204, body: '' });
  });

  it('fails when the server closes in place of an answer', async () => {
    await using server = await listen((socket) => socket.once('data', () => socket.destroy()));
    const http = await HttpConnection.open(server.port);
    await expect(http.send(requestText('GET', '/', ''))).rejects.toThrow('closed');
  });
});

describe('the checks of the load generator', () => {
  it('tells of two holders at once', async () => {
    // Nodes that nobody looks at: what raw ZooKeeper does when every client has a lock of its own.
    const port = Number(sharedZooKeeper().split(/[:/]/)[1]);
    const rest = { clients: 8, things: 1, holdMs: 5, operations: { warmUp: 0, measured: 40 } };
    const job = jobOn({ system: 'zookeeper', port }, { scenario: 'lock', ...rest });
    const meter = new Meter(job);
    await locks(job, meter);
    expect(meter.result().violations.join()).toContain('at once');
    expect(meter.result().operations).toBeGreaterThan(0);
  });

  it('finds nothing wrong with a line', async () => {
    const port = Number(sharedZooKeeper().split(/[:/]/)[1]);
    const job = jobOn({ system: 'zookeeper-listing', port }, { scenario: 'lock', clients: 8, things: 1 });
    const meter = new Meter(job);
    await locks(job, meter);
    expect(meter.result()).toMatchObject({ violations: [], errors: 0 });
  });

  it('tells of messages that come twice and of those that are lost', async () => {
    let left = 40;
    await using server = await listen((socket) => {
      socket.on('data', (chunk) => {
        const text = String(chunk);
        if (text.startsWith('put')) socket.write('INSERTED 1\r\n');
        else if (text.startsWith('delete')) socket.write('DELETED\r\n');
        else socket.write((left -= 1) > 0 ? 'RESERVED 1 2\r\nm1\r\n' : 'TIMED_OUT\r\n');
      });
    });
    const job = jobOn({ system: 'beanstalkd', port: server.port }, { scenario: 'queue', clients: 1, things: 2 });
    const meter = new Meter(job);
    await queues(job, meter);
    const all = meter.result().violations.join();
    expect(all).toContain('came twice');
    expect(all).toMatch(/lost|in all/);
  });
});

describe('goals', () => {
  const measured = (rate: number) => ({ rate }) as never;
  const goal = {
    id: 'X',
    workload: 'x',
    what: 'rate',
    of: ({ rate }: { rate: number }) => rate,
    against: { system: 'etcd' as const },
    atLeast: 2,
  };

  it('are judged by the median of the ratios of the rounds', () => {
    const postern = [10, 30, 90].map(measured);
    const etcd = [10, 10, 100].map(measured);
    const [verdict] = judge({ x: { postern, etcd } }, [goal]);
    expect(verdict).toMatchObject({ ratio: { median: 1, min: 0.9, max: 3 }, reached: false });
  });

  it('are open when the other side is missing', () => {
    expect(judge({ x: { postern: [measured(1)] } }, [goal])).toMatchObject([{ ratio: undefined, reached: undefined }]);
  });
});
