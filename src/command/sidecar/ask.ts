/** One request to the program. */
import { request as send, type Agent } from 'node:http';

export interface Asking {
  readonly url: URL;
  readonly method: 'GET' | 'POST';
  /** JSON. */
  readonly body?: string;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Without it the connection is not kept. */
  readonly agent?: Agent;
  /** Called when the program has closed a connection that it had said it keeps. */
  readonly onClosed?: () => void;
}

/**
 * @returns the status, once all of the answer has come
 * @throws Error if there is none within `timeoutMs`, or before the signal aborts
 */
export function ask(asking: Asking): Promise<number> {
  const { url, method, body, timeoutMs, signal, agent, onClosed } = asking;
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json' };
    const request = send(url, { method, headers, agent: agent ?? false });
    const giveUp = (why: string): void => {
      if (onClosed) request.socket?.removeListener('close', onClosed); // it is not the program that closes it
      request.destroy(new Error(why));
    };
    const abort = (): void => giveUp('not asked for any more');
    const timer = setTimeout(() => giveUp(`nothing within ${timeoutMs} ms`), timeoutMs);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    const settle = (settled: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      settled();
    };
    const fail = (error: NodeJS.ErrnoException): void => {
      // A server may close a connection in the moment in which it is used again.
      const again = request.reusedSocket && error.code === 'ECONNRESET' && !signal.aborted;
      settle(() => (again ? resolve(ask(asking)) : reject(error)));
    };
    request.on('error', fail);
    request.on('response', (response) => {
      const { statusCode = 0, httpVersion, headers: given, socket } = response;
      response.on('error', fail);
      response.on('end', () => {
        const kept = agent !== undefined && httpVersion === '1.1' && given.connection !== 'close';
        if (kept && onClosed && socket.listenerCount('close', onClosed) === 0) socket.once('close', onClosed);
        settle(() => resolve(statusCode));
      });
      response.resume();
    });
    request.end(body);
  });
}
