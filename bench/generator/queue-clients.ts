/** One way to push and pop for each system; messages are short texts. */
import { HttpConnection, requestText } from './http-connection.js';
import type { System, Target } from './job.js';
import { LineConnection } from './line-connection.js';
import { expect, parsed, posternHeaders } from './lock-clients.js';
import { FLAGS, ZooKeeperConnection } from './zookeeper-connection.js';

const RESERVED_SECONDS = 600;

export interface QueueClient {
  push(message: string): Promise<void>;
  /** @returns undefined when there is none */
  pop(): Promise<string | undefined>;
  close(): void;
}

/** What the clients of one job have in common. */
export interface QueueShared {
  /** Raw ZooKeeper has no queue: the znodes that are there, oldest first. */
  readonly znodes: { path: string; message: string }[];
}

export function queueClient(target: Target, shared: QueueShared): Promise<QueueClient> {
  return OPEN[target.system]?.(target, shared) ?? Promise.reject(new Error(`${target.system} has no queues here`));
}

const OPEN: Partial<Record<System, (target: Target, shared: QueueShared) => Promise<QueueClient>>> = {
  postern,
  baseline: postern,
  webdis,
  redis,
  beanstalkd,
  zookeeper,
};

async function postern(target: Target): Promise<QueueClient> {
  const http = await HttpConnection.open(target.port);
  const headers = posternHeaders(target);
  const path = `/v1/queues/${target.names}queue`;
  const popping = requestText('POST', `${path}/pop`, headers, '{}');
  return {
    async push(message) {
      const body = `{"messages":[{"body":"${message}"}]}`;
      expect(await http.send(requestText('POST', `${path}/messages`, headers, body)), 201);
    },
    async pop() {
      const answer = await http.send(popping);
      if (answer.status === 204) return undefined;
      const { items } = parsed(answer, 200) as { items: { body: string }[] };
      return items[0]?.body;
    },
    close: () => http.close(),
  };
}

async function webdis(target: Target): Promise<QueueClient> {
  const http = await HttpConnection.open(target.port);
  const queue = `${target.names}queue`;
  const popping = requestText('GET', `/RPOP/${queue}`, '');
  return {
    async push(message) {
      expect(await http.send(requestText('GET', `/LPUSH/${queue}/${message}`, '')), 200);
    },
    async pop() {
      return (parsed(await http.send(popping), 200) as { RPOP: string | null }).RPOP ?? undefined;
    },
    close: () => http.close(),
  };
}

async function redis(target: Target): Promise<QueueClient> {
  const connection = await LineConnection.open(target.port, /^\$\d/);
  const queue = `${target.names}queue`;
  return {
    async push(message) {
      const [line = ''] = await connection.send(`LPUSH ${queue} ${message}\r\n`);
      if (!line.startsWith(':')) throw new Error(line);
    },
    async pop() {
      const [line = '', message] = await connection.send(`RPOP ${queue}\r\n`);
      if (!line.startsWith('$')) throw new Error(line);
      return message;
    },
    close: () => connection.close(),
  };
}

/** A pop is what its clients do: reserve, then delete. */
async function beanstalkd(target: Target): Promise<QueueClient> {
  const connection = await LineConnection.open(target.port, /^RESERVED/);
  const must = async (request: string, answer: string): Promise<void> => {
    const [line = ''] = await connection.send(request);
    if (!line.startsWith(answer)) throw new Error(line);
  };
  return {
    push: (message) => must(`put 0 0 ${RESERVED_SECONDS} ${message.length}\r\n${message}\r\n`, 'INSERTED'),
    async pop() {
      const [line = '', message] = await connection.send('reserve-with-timeout 0\r\n');
      if (line.startsWith('TIMED_OUT')) return undefined;
      if (!line.startsWith('RESERVED')) throw new Error(line);
      await must(`delete ${line.split(' ')[1]}\r\n`, 'DELETED');
      return message;
    },
    close: () => connection.close(),
  };
}

/**
 * A sequential znode made, and the oldest one that is known deleted: no listing, so less than any queue on ZooKeeper
 * has to do.
 */
async function zookeeper(target: Target, { znodes }: QueueShared): Promise<QueueClient> {
  const session = await ZooKeeperConnection.open(target.port);
  const parent = `/${target.names}queue`;
  await session.create(parent, FLAGS.persistent); // or it is there
  return {
    async push(message) {
      const path = await session.create(`${parent}/m-`, FLAGS.persistentSequential, Buffer.from(message));
      if (typeof path === 'number') throw new Error(`the creation was refused with ${path}`);
      znodes.push({ path, message });
    },
    async pop() {
      const oldest = znodes.shift();
      if (oldest === undefined) return undefined;
      const code = await session.delete(oldest.path);
      if (code !== 0) throw new Error(`the deletion was refused with ${code}`);
      return oldest.message;
    },
    close: () => session.close(),
  };
}
