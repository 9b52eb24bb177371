/** Bytes that are not a request: answered by hand, because they have neither a request nor a response object. */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PosternError } from '../../errors.js';
import type { Logger } from '../../log.js';
import { createSeldom } from '../../seldom.js';
import { MINUTE } from '../../time.js';
import { BROWSER_HEADERS } from '../frame/answer.js';
import { cutBody } from '../frame/body.js';
import { problemOf } from '../frame/problem.js';
import { TARGET_BYTES_MAX } from '../frame/request-target.js';
import { newTraceId } from '../frame/trace.js';

/** Request line and headers together. */
export const HEADERS_BYTES_MAX = 16 * 1024;

/** How long a client has to read why it is cut off. */
const LINGER_MS = 500;

interface ParseError extends Error {
  code?: string;
  rawPacket?: Buffer;
}

export class ConnectionErrors {
  readonly #logger: Logger;
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  readonly #answered = new WeakSet<Duplex>();
  readonly #seldom = createSeldom(MINUTE);

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Call it for every request, so that nothing is ever written into the middle of an answer. */
  readonly onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    this.#latest.set(request.socket, response);
  };

  /** A failed handshake: from a scanner, from plain HTTP, or without the required client certificate. */
  readonly onTlsError = (error: Error & { code?: string }, socket: Duplex): void => {
    this.#logger.debug({ reason: error.code ?? error.message }, 'TLS handshake failed');
    // Node has no public name for the socket below. If its internals change, the client just learns nothing, as before.
    const below = (socket as Duplex & { _parent?: unknown })._parent;
    if (error.code !== 'ERR_SSL_HTTP_REQUEST' || !(below instanceof Socket) || !below.writable) {
      socket.destroy();
      return;
    }
    this.#warn(below, 'plain HTTP at the TLS port: clients have to use https://');
    const problem = new PosternError('malformed', 'This port speaks TLS; use https:// in place of http://.');
    this.#answer(below, problem, error.code);
  };

  readonly onClientError = (error: ParseError, socket: Duplex): void => {
    if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') {
      this.#refuse(error, socket);
      return;
    }
    // After a standstill the timeout fires before the data that arrived meanwhile is read: read it first, since a
    // request in it was in time.
    const before = this.#latest.get(socket);
    const wasComplete = before?.req.complete === true;
    setImmediate(() => {
      const latest = this.#latest.get(socket);
      if (latest !== before || (!wasComplete && latest?.req.complete === true)) return;
      // Opened in advance and never used: an answer would be taken for that to a request on its way.
      if (latest === undefined && socket instanceof Socket && socket.bytesRead === 0) socket.destroy();
      else this.#refuse(error, socket);
    });
  };

  #refuse(error: ParseError, socket: Duplex): void {
    // Drops what the client goes on sending; closing at once would reset the connection before the answer is read.
    if (this.#answered.has(socket)) return;
    const latest = this.#latest.get(socket);
    const isAnswering = latest !== undefined && !latest.writableFinished;
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    if (isAnswering && latest.req.complete) {
      // The readable requests are answered first. Behind a request that asked to close the connection nothing is
      // answered.
      this.#answered.add(socket);
      latest.once('close', () => {
        if (socket.writable) this.#answer(socket, explain(error), error.code);
      });
      return;
    }
    if (isAnswering) {
      // In the middle of a body: its reader answers, and nothing else is read from this connection.
      if (cutBody(latest.req, explain(error))) this.#answered.add(socket);
      else socket.destroy();
      return;
    }
    if (isTls(error))
      this.#warn(socket, 'TLS on the plain HTTP port: clients must use http://, or set POSTERN_TLS_CERT');
    this.#answer(socket, explain(error), error.code);
  }

  /** Once a minute: a client with the wrong scheme may retry many times a second. */
  #warn(socket: Duplex, text: string): void {
    if (this.#seldom(text)) this.#logger.warn({ client: addressOf(socket) }, `${text} (logged once a minute)`);
  }

  /** Logged once a minute for each reason, and always at `debug`. */
  #answer(socket: Duplex, error: PosternError, reason = 'unknown'): void {
    const traceId = newTraceId();
    const problem = problemOf(error, traceId);
    this.#logger[this.#seldom(reason) ? 'info' : 'debug'](
      { traceId, status: problem.status, outcome: problem.body.code, reason, client: addressOf(socket) },
      'malformed request',
    );
    const body = `${JSON.stringify(problem.body)}\n`;
    const head = [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}`,
      `Content-Type: ${problem.contentType}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      `Trace-Id: ${traceId}`,
      'Cache-Control: no-store',
      ...Object.entries(BROWSER_HEADERS).map(([name, value]) => `${name}: ${value}`),
      'Connection: close',
    ];
    this.#answered.add(socket);
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
    const linger = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(linger));
  }
}

function explain(error: ParseError): PosternError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return isLongTarget(error.rawPacket)
        ? new PosternError(
            'uri-too-long',
            `The request target is too long; at most ${TARGET_BYTES_MAX} bytes are read.`,
            {
              members: { maxBytes: TARGET_BYTES_MAX },
            },
          )
        : new PosternError(
            'headers-too-large',
            `The headers are too large; at most ${HEADERS_BYTES_MAX} bytes are read.`,
            {
              members: { maxBytes: HEADERS_BYTES_MAX },
            },
          );
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new PosternError('malformed', 'The request did not arrive in time.', { cause: error });
    default:
      if (isTls(error))
        return new PosternError(
          'malformed',
          'This looks like TLS; this port speaks plain HTTP: use http:// in place of https://.',
          { cause: error },
        );
      return new PosternError('malformed', 'This is not an HTTP/1.1 request.', { cause: error });
  }
}

/** Whether the packet begins with a request line longer than the longest target. */
function isLongTarget(packet: Buffer | undefined): boolean {
  if (packet === undefined || !/^[A-Z]+ [/h]/.test(packet.toString('latin1', 0, 16))) return false;
  const end = packet.indexOf('\n');
  return end === -1 || end > TARGET_BYTES_MAX;
}

/** Whether the unreadable bytes begin like a TLS handshake: a record of type 22, version 3. */
function isTls({ code, rawPacket }: ParseError): boolean {
  return code === 'HPE_INVALID_METHOD' && rawPacket?.[0] === 0x16 && rawPacket[1] === 0x03;
}

function addressOf(socket: Duplex): string | undefined {
  return socket instanceof Socket ? socket.remoteAddress : undefined;
}
