/**
 * One HTTP request on a kept connection. `node:http` and not `fetch`, which has no place for a client certificate
 * without a package of its own.
 */
import { setMaxListeners } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import type { Socket } from 'node:net';
import type { TlsOptions } from '../options.js';

export interface Exchange {
  url: URL;
  method: string;
  headers: Record<string, string>;
  body: string | Uint8Array | undefined;
  timeoutMs: number;
  signals: readonly AbortSignal[];
}

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

/** There was no answer. `sent`: the request may have reached the gateway. */
export class NoReplyError extends Error {
  constructor(
    readonly sent: boolean,
    cause: unknown,
  ) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** The connections of one client. */
export class Transport {
  readonly #http = new http.Agent({ keepAlive: true });
  readonly #https: https.Agent;

  constructor(tls: TlsOptions | undefined) {
    this.#https = new https.Agent({ keepAlive: true, ...(tls as https.AgentOptions | undefined) });
  }

  /**
   * @returns the answer, whatever its status
   * @throws NoReplyError if there is none within `timeoutMs`; the reason of a signal that aborts
   */
  exchange({ url, method, headers, body, timeoutMs, signals }: Exchange): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const aborted = signals.find((signal) => signal.aborted);
      if (aborted) return reject(aborted.reason as Error);
      const secure = url.protocol === 'https:';
      const agent = secure ? this.#https : this.#http;
      const length = body === undefined ? 0 : Buffer.byteLength(body);
      // Without a length a request that has no body would be sent in chunks.
      const all = body === undefined && method === 'GET' ? headers : { ...headers, 'Content-Length': String(length) };
      const request = (secure ? https : http).request(url, { method, headers: all, agent });
      let sent = false;
      const settle = (settled: () => void): void => {
        clearTimeout(timer);
        for (const signal of signals) signal.removeEventListener('abort', onAbort);
        settled();
      };
      const fail = (error: unknown): void => settle(() => reject(new NoReplyError(sent, error)));
      const onAbort = (event: Event): void => {
        settle(() => reject((event.target as AbortSignal).reason as Error));
        request.destroy();
      };
      const timer = setTimeout(() => {
        fail(new Error(`nothing within ${Math.round(timeoutMs)} ms`));
        request.destroy();
      }, timeoutMs);
      setMaxListeners(0, ...signals); // many requests at once are no leak
      for (const signal of signals) signal.addEventListener('abort', onAbort);
      request.on('error', fail); // stays: an error after the end must not become an uncaught one
      request.on('socket', (socket: Socket) => {
        if (!socket.connecting) sent = true;
        else socket.once(secure ? 'secureConnect' : 'connect', () => (sent = true));
      });
      request.on('response', (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', fail);
        response.on('end', () =>
          settle(() =>
            resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
          ),
        );
      });
      request.end(body);
    });
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}
