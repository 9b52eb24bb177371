/**
 * The listeners: started together, stopped gracefully.
 *
 * Stopping: no new connections, answers say `Connection: close`, idle connections are closed; the rest is cut off at
 * the deadline (`close-listener.ts`). The operations port answers until the main one is done, so that probes see the
 * drain.
 */
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions as HttpServerOptions,
  type ServerResponse,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { Config } from '../../config.js';
import type { Logger } from '../../log.js';
import { SECOND } from '../../time.js';
import type { App } from '../frame/app.js';
import { boundConnections } from './bound-connections.js';
import { closeListener } from './close-listener.js';
import { ConnectionErrors, HEADERS_BYTES_MAX } from './connection-errors.js';
import type { Face } from '../frame/express-face.js';
import { OPS_CONNECTIONS_MAX } from './max-connections.js';
import { isIdle, oneAtATime } from './pipelining.js';
import { createTls, endWithCertificate, type ListenerTls, type TlsConfig } from './tls.js';

export interface ServerTimeouts {
  /** A whole request, body included; a slow sender is cut off. */
  readonly requestMs: number;
  readonly headersMs: number;
  /** How often both timeouts are checked. */
  readonly checkEveryMs: number;
  /** A connection that takes nothing of its answer for so long is cut off. */
  readonly stalledMs: number;
  /** Longer than common proxies keep idle connections, so that this side never closes one that is about to be used. */
  readonly keepAliveMs: number;
}

const TIMEOUTS: ServerTimeouts = {
  requestMs: 30 * SECOND,
  headersMs: 10 * SECOND,
  checkEveryMs: SECOND,
  stalledMs: 30 * SECOND,
  keepAliveMs: 65 * SECOND,
};

/** TCP probes that tell a dead client from a silent one, for waits that write nothing. */
const TCP_KEEP_ALIVE_MS = 15 * SECOND;

export interface StartOptions {
  readonly app: App;
  readonly config: Pick<Config, 'host' | 'port' | 'opsPort'> & TlsConfig;
  /** At the main port; Infinity: any number. */
  readonly maxConnections: number;
  readonly logger: Logger;
  readonly timeouts?: Partial<ServerTimeouts>;
  /** How often the certificate's files are polled. */
  readonly tlsPollMs?: number | undefined;
}

export interface RunningServer {
  readonly port: number;
  readonly opsPort: number | undefined;
  /** `http://host:port` of the main listener; `https:` with TLS. */
  readonly url: string;
  /** Stops gracefully, by force after `withinMs`. Abort the app's `draining` first. */
  stop(withinMs: number): Promise<void>;
}

/**
 * @throws Error with a sentence that names the setting if an address cannot be listened on or a certificate cannot be
 *   used
 */
export async function startServer(options: StartOptions): Promise<RunningServer> {
  const { app, config, maxConnections, logger, timeouts, tlsPollMs } = options;
  const times = { ...TIMEOUTS, ...timeouts };
  const tls = createTls(config, logger, tlsPollMs);
  const main = createListener(app, app.main, { logger, times, tls });
  // Probes have no certificate.
  const ops = config.opsPort === undefined ? undefined : createListener(app, app.ops, { logger, times });
  boundConnections(main, maxConnections, logger);
  if (ops !== undefined) boundConnections(ops, OPS_CONNECTIONS_MAX, logger);
  let port: number;
  let opsPort: number | undefined;
  try {
    port = await listen(main, config.host, config.port, 'POSTERN_PORT');
    if (ops !== undefined) opsPort = await listen(ops, config.host, config.opsPort ?? 0, 'POSTERN_OPS_PORT');
  } catch (error) {
    tls?.close();
    if (main.listening) await closeListener(main, 0);
    throw error;
  }
  return {
    port,
    opsPort,
    url: `${tls === undefined ? 'http' : 'https'}://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}`,
    async stop(withinMs) {
      await closeListener(main, withinMs);
      tls?.close();
      if (ops !== undefined) await closeListener(ops, 0);
      app.cutOff();
    },
  };
}

interface ListenerOptions {
  readonly logger: Logger;
  readonly times: ServerTimeouts;
  readonly tls?: ListenerTls | undefined;
}

function createListener({ ahead }: App, face: Face, { logger, times, tls }: ListenerOptions): Server {
  const errors = new ConnectionErrors(logger);
  const options = {
    ...face.classes,
    maxHeaderSize: HEADERS_BYTES_MAX,
    requestTimeout: times.requestMs,
    headersTimeout: times.headersMs,
    connectionsCheckingInterval: times.checkEveryMs,
    keepAliveTimeout: times.keepAliveMs,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    noDelay: true,
    // The frame refuses such requests itself, with a problem that has a body and a trace id.
    requireHostHeader: false,
  };
  const server = tls === undefined ? createServer(options) : createTlsListener(options, tls, errors, times);
  // Node silently drops headers after the 2 000th, and one of them may be the length of the body; their bytes are
  // bounded.
  server.maxHeadersCount = 0;
  // Node counts from the last byte that the system took, and notices progress within one large write.
  server.timeout = times.stalledMs;
  server.on('timeout', (socket: Socket) => {
    // Unread bytes take memory of this process. A waiting request has none, and may wait longer.
    if (isIdle(socket) || socket.writableLength > 0) socket.destroy();
  });
  const listener = oneAtATime(face.listener, ahead);
  // The body reader sends "100 Continue" when it is ready for the body, and a body that is too large is refused before
  // it is sent.
  for (const event of ['request', 'checkContinue', 'checkExpectation'])
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      errors.onRequest(request, response);
      listener(request, response);
    });
  server.on('clientError', errors.onClientError);
  return server;
}

function createTlsListener(
  options: HttpServerOptions,
  tls: ListenerTls,
  errors: ConnectionErrors,
  times: ServerTimeouts,
): Server {
  const server = createTlsServer({
    ...options,
    ...tls.context,
    requestCert: tls.wantsClientCertificate,
    rejectUnauthorized: tls.wantsClientCertificate,
    handshakeTimeout: times.headersMs,
  });
  if (tls.wantsClientCertificate) server.on('secureConnection', endWithCertificate);
  tls.onChange((context) => server.setSecureContext(context));
  // Node would treat it as an unreadable request, and no client could read an answer yet.
  server.removeAllListeners('tlsClientError').on('tlsClientError', errors.onTlsError);
  // Node's own way of closing all connections misses those still in their handshake.
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const closeAll = server.closeAllConnections.bind(server);
  server.closeAllConnections = () => {
    closeAll();
    for (const socket of open) socket.destroy();
  };
  return server;
}

function listen(server: Server, host: string, port: number, setting: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(new Error(explain(error, host, port, setting), { cause: error })),
    );
    server.listen({ host, port }, () => {
      server.removeAllListeners('error');
      resolve((server.address() as AddressInfo).port);
    });
  });
}

function explain({ code, message }: NodeJS.ErrnoException, host: string, port: number, setting: string): string {
  if (code === 'EADDRINUSE') return `${setting} is ${port}: something else listens on ${host}:${port} already.`;
  if (code === 'EACCES') return `${setting} is ${port}: this user may not listen on ${host}:${port}.`;
  if (code === 'ENOTFOUND' || code === 'EADDRNOTAVAIL')
    return `POSTERN_HOST is "${host}": this machine has no such address.`;
  return `Listening on ${host}:${port} failed: ${message}`;
}
