/** Requests as the tests of the frame send them: through supertest with every answer checked, or byte by byte. */
import { connect, type Socket } from 'node:net';
import supertest, { type Response, type Test } from 'supertest';
import { expectContract } from '../support/http/contract.js';
import { eventually } from '../support/eventually.js';
import type { Handler } from '../../src/http/frame/exchange.js';

export type Method = 'get' | 'head' | 'post' | 'put' | 'delete' | 'options';

/** Sends a request that `prepare` completes, and checks the answer against the contract. */
export async function send(
  url: string,
  method: Method,
  path: string,
  prepare: (test: Test) => Test = (test) => test,
): Promise<Response> {
  const response = await prepare(supertest(url)[method](path));
  const isJson = /json/.test(response.headers['content-type'] ?? '');
  expectContract(method, path, {
    status: response.status,
    headers: response.headers,
    body: isJson ? (response.body as unknown) : response.text,
  });
  return response;
}

/** A handler for `acquireLock` that answers as one would who holds it at once. */
export const held: Handler = ({ params }) =>
  Promise.resolve({
    status: 200,
    body: {
      name: params['name'],
      held: true,
      holdId: 'h1',
      fencingToken: 1,
      requestId: '',
      waitedMs: 0,
      alreadyHeld: false,
      leaseId: 'l1',
      ttlMs: 5000,
      expiresAt: '2026-01-31T09:30:15.000Z',
    },
  });

/** A handler for `showLock` of a lock that nobody uses. */
export const free: Handler = ({ params }) =>
  Promise.resolve({
    status: 200,
    headers: { ETag: '"0"' },
    body: { name: params['name'], holders: [], holderCount: 0, waiters: [], waiterCount: 0 },
  });

export interface RawConnection extends AsyncDisposable {
  socket: Socket;
  /** What has come so far, as Latin-1. */
  received(): string;
  /** Whether the other side has closed. */
  ended(): boolean;
}

/** A connection that a test writes bytes to. */
export async function rawConnection(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  let received = '';
  let ended = false;
  socket.on('data', (chunk) => (received += chunk.toString('latin1')));
  socket.on('close', () => (ended = true));
  socket.on('end', () => (ended = true));
  socket.on('error', () => (ended = true)); // a reset is an end too
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  return {
    socket,
    received: () => received,
    ended: () => ended,
    [Symbol.asyncDispose]: async () => {
      socket.destroy();
      await eventually('the connection is closed', () => socket.closed);
    },
  };
}

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: unknown;
}

/**
 * Sends bytes that are, or are not, a request, and waits for one whole answer. Checked against the contract as a
 * `method` on `path`.
 */
export async function sendRaw(url: string, bytes: string, method = 'get', path = '/healthz'): Promise<RawAnswer> {
  await using connection = await rawConnection(url);
  connection.socket.write(bytes, 'latin1');
  const text = await eventually(
    'an answer has come',
    () => /^HTTP\/1\.1 (?!100)[^]*?\r\n\r\n[^]*\}\n$/.exec(connection.received())?.[0],
  );
  const answer = parseAnswer(text);
  expectContract(method, path, answer);
  return answer;
}

export function parseAnswer(text: string): RawAnswer {
  const [head = '', body = ''] = text.split(/\r\n\r\n([^]*)/);
  const [line = '', ...fields] = head.split('\r\n');
  const headers = Object.fromEntries(
    fields.map((field) => [
      field.slice(0, field.indexOf(':')).toLowerCase(),
      field.slice(field.indexOf(':') + 1).trim(),
    ]),
  );
  return {
    status: Number(line.split(' ')[1]),
    headers,
    body: /json/.test(headers['content-type'] ?? '') ? JSON.parse(body) : body,
  };
}
