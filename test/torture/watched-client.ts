/**
 * A client that finds fault with answers, whatever the workload makes of them: against the contract, of a kind that no
 * fault explains, or later than promised. Who runs it decides whether somebody stood still meanwhile.
 */
import type { Dispatcher } from 'undici';
import { now } from '../histories/history.js';
import { Client, type CallOptions, type Reply } from '../support/http/client.js';
import { scaled } from '../support/timing.js';
import type { Slow } from './client-process.js';

/** What a right request does not get, whatever befalls the replica. */
const NEVER = [400, 401, 403, 405, 413, 415, 422];
/** For what is no replica's doing: both processes wait for a processor, and the proxies between. */
const ALLOWANCE_MS = scaled(2_500);

export interface Watch {
  answered(status: number): void;
  /** Every call, for whoever has to find out what happened. */
  called?(call: Call): void;
  complain(complaint: string): void;
  slow(slow: Slow): void;
  /** How long this process itself has not been running since then, ms. */
  stalledSince(time: number): number;
}

export interface Call {
  readonly begin: number;
  readonly end: number;
  readonly url: string;
  readonly what: string;
  readonly asked: unknown;
  /** The end of the token, to tell the clients apart. */
  readonly lease: string | undefined;
  /** Status and body, or the error. */
  readonly answer: unknown;
}

export class WatchedClient extends Client {
  constructor(
    url: string,
    readonly key: string,
    readonly requestTimeoutMs: number,
    readonly watch: Watch,
  ) {
    super(url);
  }

  override async call(method: Dispatcher.HttpMethod, path: string, options: CallOptions = {}): Promise<Reply> {
    const begin = now();
    const headers = { authorization: `Bearer ${this.key}`, ...options.headers };
    let answer: unknown;
    try {
      const reply = await super.call(method, path, { ...options, headers });
      answer = [reply.status, reply.body];
      this.watch.answered(reply.status);
      const { code } = (reply.body ?? {}) as { code?: string };
      if ((reply.status >= 500 && reply.status !== 503) || NEVER.includes(reply.status))
        this.watch.complain(`${method} ${path} answered ${reply.status} ${code}: ${JSON.stringify(reply.body)}`);
      return reply;
    } catch (error) {
      const { message } = error as Error;
      answer = message;
      if (/against the contract|secret/.test(message)) this.watch.complain(message);
      throw error;
    } finally {
      const end = now();
      const lease = options.leaseToken?.slice(-8);
      this.watch.called?.({ begin, end, url: this.url, what: `${method} ${path}`, asked: options.body, lease, answer });
      const limitMs = waitOf(path, options.body) + this.requestTimeoutMs + ALLOWANCE_MS;
      if (end - begin - this.watch.stalledSince(begin) > limitMs)
        this.watch.slow({ what: `${method} ${path}`, url: this.url, begin, end, limitMs });
    }
  }
}

/** How long the request asked to wait. */
function waitOf(path: string, body: unknown): number {
  const asked = (body as { waitMs?: number } | undefined)?.waitMs;
  return asked ?? Number(new URL(path, 'http://replica').searchParams.get('waitMs') ?? 0);
}
