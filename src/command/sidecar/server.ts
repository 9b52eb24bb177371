/**
 * HTTP for the program on loopback. Nobody has to say who he is there, so that what a browser on this machine can be
 * made to send is refused: requests for another host (DNS rebinding), and those of pages from elsewhere.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Connections } from './connections.js';
import { Refusal, refusalOf } from './refusal.js';
import type { Address } from './settings.js';

/** More than one program opens, and more than there are probes. */
const CONNECTIONS_MAX = { program: 512, probes: 256 };
const BODY_BYTES_MAX = 4_096;
const HEADER_BYTES_MAX = 8_192;
/** How long the head of a request may take to arrive, also the first one of a connection, in milliseconds. */
const HEAD_ARRIVAL_MS = 2_000;
/** The same with its body. */
const ARRIVAL_MS = 5_000;
/** How long a connection is kept for another request, in milliseconds. */
const KEPT_MS = 5_000;
/** Both are only looked at so often, in milliseconds. */
const LOOK_MS = 500;
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
const PAGES_OF_OUR_OWN = ['none', 'same-origin'];

export interface Asked {
  readonly method: string;
  readonly path: string;
  /** Of a POST: an object. */
  readonly body: Readonly<Record<string, unknown>>;
  /** Aborts when nobody waits for the answer any more. */
  readonly left: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
}

export type Handle = (asked: Asked) => Answer | Promise<Answer>;

export interface Listening {
  readonly url: string;
  close(): void;
}

/**
 * @param onlyLoopback whether it is only for this machine
 * @throws the error of the system if it cannot listen there
 */
export async function listen(address: Address, onlyLoopback: boolean, handle: Handle): Promise<Listening> {
  const server = createServer({
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: HEAD_ARRIVAL_MS,
    requestTimeout: ARRIVAL_MS,
    keepAliveTimeout: KEPT_MS,
    connectionsCheckingInterval: LOOK_MS,
  });
  const connections = new Connections(server, onlyLoopback ? CONNECTIONS_MAX.program : CONNECTIONS_MAX.probes);
  const serving = { onlyLoopback, handle, connections };
  server.on('request', (request, response) => void serve(request, response, serving));
  await bind(server, address);
  const { port, address: host, family } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${host}]` : host}:${port}`,
    close: () => {
      server.close();
      server.closeIdleConnections();
    },
  };
}

function bind(server: Server, { host, port }: Address): Promise<void> {
  return new Promise((resolve, reject) => {
    server.on('error', reject); // afterwards a connection that cannot be taken ends nothing
    server.listen(port, host, resolve);
  });
}

interface Serving {
  onlyLoopback: boolean;
  handle: Handle;
  connections: Connections;
}

async function serve(request: IncomingMessage, response: ServerResponse, serving: Serving): Promise<void> {
  const left = new AbortController();
  response.on('close', () => left.abort(new Error('nobody waits for the answer')));
  response.on('error', () => undefined);
  try {
    if (serving.onlyLoopback) checkOrigin(request);
    const [path = '/'] = (request.url ?? '/').split('?');
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET');
    // What others send is not read: there is no POST for them.
    const body = method === 'POST' && serving.onlyLoopback ? await bodyOf(request) : {};
    const asked = { method, path, body, left: left.signal };
    const { status, body: answer } = await serving.connections.during(request.socket, () => serving.handle(asked));
    send(response, status, answer);
  } catch (error) {
    if (response.destroyed) return;
    const refusal = refusalOf(error) ?? new Refusal(500, 'internal', (error as Error).message);
    const { status, code, message: detail, more } = refusal;
    // What is left of a body that was refused is not read.
    if (!request.complete) response.setHeader('Connection', 'close');
    if (status === 405) response.setHeader('Allow', String(more['allow']));
    send(response, status, { ...more, status, code, detail }, 'application/problem+json');
  }
}

function checkOrigin({ headers }: IncomingMessage): void {
  const { host = '', origin, 'sec-fetch-site': site = 'none' } = headers;
  if (!LOOPBACK_HOST.test(host))
    throw new Refusal(421, 'foreign-host', `the request is for "${host}"; it must be for localhost or 127.0.0.1`);
  if (origin !== undefined || !PAGES_OF_OUR_OWN.includes(String(site)))
    throw new Refusal(403, 'cross-origin', 'web pages are not answered');
}

async function bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > BODY_BYTES_MAX)
      throw new Refusal(413, 'too-large', `a body may have ${BODY_BYTES_MAX} bytes, and this one has more`);
    chunks.push(chunk);
  }
  if (length === 0) return {};
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // said below
  }
  throw new Refusal(400, 'malformed', 'the body must be a JSON object');
}

function send(response: ServerResponse, status: number, body: unknown, type = 'application/json'): void {
  const text = `${JSON.stringify(body)}\n`;
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': String(Buffer.byteLength(text)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  });
  response.end(text);
}
