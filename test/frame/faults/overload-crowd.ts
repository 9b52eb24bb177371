/**
 * The crowd of `overload.test.ts`, a process of its own: clients that push messages, each over a connection of its own,
 * and that ask again at once when they are refused, whatever `Retry-After` says.
 *
 * In a closed loop each sends its next push when the last one is answered; with a rate, pushes begin at that rate, as
 * far as there is a connection that is free.
 */
import { connect, type Socket } from 'node:net';

export interface CrowdJob {
  readonly port: number;
  readonly queue: string;
  readonly connections: number;
  readonly seconds: number;
  /** Pushes per second; without it the loop is closed. */
  readonly rate?: number;
}

export interface Spread {
  readonly count: number;
  /** ms */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface CrowdResult {
  readonly seconds: number;
  /** Answered 201. */
  readonly pushed: Spread;
  /** Answered 503 `overloaded`. */
  readonly refused: Spread;
  /** How the refusals said when to come back, and how often. */
  readonly retryAfter: Readonly<Record<string, number>>;
  /** Other answers, by status and code, and refusals that are not as they should be. */
  readonly others: Readonly<Record<string, number>>;
  /** One refusal, to be held against the contract. */
  readonly sample: { readonly head: string; readonly body: string } | undefined;
  /** Of this process, of one core. */
  readonly load: number;
}

const HOST = '127.0.0.1';
const OPENED_AT_ONCE = 50;
const TICK_MS = 5;

interface Answer {
  readonly head: string;
  readonly body: string;
}

class Connection {
  #received = '';
  #onAnswer: ((answer: Answer) => void) | undefined;

  private constructor(readonly socket: Socket) {
    socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#onData(chunk));
    socket.on('error', () => undefined); // told by close
    socket.on('close', () => this.#onAnswer?.({ head: 'closed', body: '' }));
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: HOST });
      socket.once('error', reject);
      socket.once('connect', () => resolve(new Connection(socket)));
    });
  }

  send(request: string): Promise<Answer> {
    return new Promise((resolve) => {
      this.#onAnswer = resolve;
      this.socket.write(request, 'latin1');
    });
  }

  #onData(chunk: string): void {
    this.#received += chunk;
    const end = this.#received.indexOf('\r\n\r\n');
    const length = end === -1 ? null : /\r\ncontent-length: (\d+)/i.exec(this.#received);
    if (length === null || this.#received.length < end + 4 + Number(length[1])) return;
    const answer = { head: this.#received.slice(0, end), body: this.#received.slice(end + 4) };
    this.#received = '';
    const onAnswer = this.#onAnswer;
    this.#onAnswer = undefined;
    onAnswer?.(answer);
  }
}

async function run(job: CrowdJob): Promise<CrowdResult> {
  const connections: Connection[] = [];
  while (connections.length < job.connections) {
    const some = Math.min(OPENED_AT_ONCE, job.connections - connections.length);
    connections.push(...(await Promise.all(Array.from({ length: some }, () => Connection.open(job.port)))));
  }
  const times = { pushed: [] as number[], refused: [] as number[] };
  const retryAfter: Record<string, number> = {};
  const others: Record<string, number> = {};
  let sample: CrowdResult['sample'];
  const count = (where: Record<string, number>, what: string): void => void (where[what] = (where[what] ?? 0) + 1);
  const push = async (connection: Connection): Promise<void> => {
    const from = performance.now();
    const { head, body } = await connection.send(pushRequest(job.queue));
    const ms = performance.now() - from;
    const status = head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length);
    if (status === '201') {
      times.pushed.push(ms);
      return;
    }
    const seconds = /\r\nretry-after: ([1-9]\d*)(\r|$)/i.exec(head)?.[1];
    if (status !== '503' || !body.includes('"code":"overloaded"')) return count(others, `${status} ${body}`);
    if (seconds === undefined) return count(others, 'refused without Retry-After');
    times.refused.push(ms);
    count(retryAfter, seconds);
    sample ??= { head, body };
  };

  const startedAt = performance.now();
  const cpu = process.cpuUsage();
  const end = startedAt + job.seconds * 1_000;
  if (job.rate === undefined) {
    await Promise.all(
      connections.map(async (connection) => {
        while (performance.now() < end) await push(connection);
      }),
    );
  } else await atRate(connections, job.rate, end, push);
  const seconds = (performance.now() - startedAt) / 1_000;
  const { user, system } = process.cpuUsage(cpu);
  for (const { socket } of connections) socket.destroy();
  return {
    seconds,
    pushed: spread(times.pushed),
    refused: spread(times.refused),
    retryAfter,
    others,
    sample,
    load: (user + system) / 1e6 / seconds,
  };
}

function atRate(
  connections: readonly Connection[],
  rate: number,
  end: number,
  push: (connection: Connection) => Promise<void>,
): Promise<void> {
  const free = [...connections];
  const startedAt = performance.now();
  let planned = 0;
  return new Promise((resolve) => {
    const ticks = setInterval(() => {
      const now = performance.now();
      if (now >= end) {
        if (free.length < connections.length) return;
        clearInterval(ticks);
        return resolve();
      }
      const due = Math.floor(((now - startedAt) / 1_000) * rate);
      for (; planned < due; planned += 1) {
        // The one that is free for longest. Without one, the push is one of a client that is still waiting.
        const connection = free.shift();
        if (connection !== undefined) void push(connection).then(() => free.push(connection));
      }
    }, TICK_MS);
  });
}

function pushRequest(queue: string): string {
  const body = '{"messages":[{"body":"m"}]}';
  return `POST /v1/queues/${queue}/messages HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

function spread(times: number[]): Spread {
  times.sort((x, y) => x - y);
  const at = (part: number): number =>
    Math.round(times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? 0);
  return { count: times.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

process.on('message', (job: CrowdJob) => void run(job).then((result) => process.send?.(result)));
