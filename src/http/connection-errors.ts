/**
 * Bytes that are not a request: answered by hand, because there is neither a request nor a response object for them.
 */
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { PosternError } from '../errors.js';
import type { Logger } from '../log.js';
import { cutBody } from './body.js';
import { problemOf } from './problem.js';
import { TARGET_BYTES_MAX } from './request-target.js';
import { newTraceId } from './trace.js';

/** Request line and headers together. */
export const HEADERS_BYTES_MAX = 16 * 1024;

/** How long a client may take to read why it is cut off. */
const LINGER_MS = 500;

interface ParseError extends Error {
  code?: string;
  rawPacket?: Buffer;
}

export class ConnectionErrors {
  readonly #logger: Logger;
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  readonly #answered = new WeakSet<Duplex>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** To be told of every request, so that nothing is ever written into the middle of an answer. */
  readonly onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    this.#latest.set(request.socket, response);
  };

  /** A handshake that failed: of a scanner, of plain HTTP, or without the certificate that is wanted. */
  readonly onTlsError = (error: Error & { code?: string }, socket: Duplex): void => {
    this.#logger.debug({ reason: error.code ?? error.message }, 'no TLS connection');
    socket.destroy();
  };

  readonly onClientError = (error: ParseError, socket: Duplex): void => {
    if (error.code !== 'ERR_HTTP_REQUEST_TIMEOUT') {
      this.#refuse(error, socket);
      return;
    }
    // In a process that stood still the time is up before what arrived meanwhile is read: that comes now, and a request in time is one.
    const before = this.#latest.get(socket);
    setImmediate(() => {
      const latest = this.#latest.get(socket);
      if (latest !== before || latest?.req.complete === true) return;
      // Opened in advance and never used: an answer would be taken for that to a request which is on its way.
      if (latest === undefined && socket instanceof Socket && socket.bytesRead === 0) socket.destroy();
      else this.#refuse(error, socket);
    });
  };

  #refuse(error: ParseError, socket: Duplex): void {
    // What the client goes on sending is dropped meanwhile; closing at once would reset the connection under the answer.
    if (this.#answered.has(socket)) return;
    const latest = this.#latest.get(socket);
    const isAnswering = latest !== undefined && !latest.writableFinished;
    if (error.code === 'ECONNRESET' || !socket.writable || (isAnswering && latest.socket !== socket)) {
      socket.destroy();
      return;
    }
    if (isAnswering) {
      // In the middle of its body: who reads it answers, and nothing else is taken from this connection.
      latest.shouldKeepAlive = false;
      if (cutBody(latest.req, explain(error))) this.#answered.add(socket);
      else socket.destroy();
      return;
    }
    const traceId = newTraceId();
    const problem = problemOf(explain(error), traceId);
    this.#logger.info(
      { traceId, status: problem.status, outcome: problem.body.code, reason: error.code },
      'not a request',
    );
    const body = JSON.stringify(problem.body);
    const head = [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status] ?? ''}`,
      `Content-Type: ${problem.contentType}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      `Trace-Id: ${traceId}`,
      'Cache-Control: no-store',
      'X-Content-Type-Options: nosniff',
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
      return new PosternError('malformed', 'This is not an HTTP/1.1 request.', { cause: error });
  }
}

/** Whether the packet begins with a request line that goes on past the longest target. */
function isLongTarget(packet: Buffer | undefined): boolean {
  if (packet === undefined || !/^[A-Z]+ [/h]/.test(packet.toString('latin1', 0, 16))) return false;
  const end = packet.indexOf('\n');
  return end === -1 || end > TARGET_BYTES_MAX;
}
