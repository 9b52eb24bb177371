/**
 * The replicas as one service: a request is repeated, at another replica if there is one, for as long as that is safe
 * and may help.
 *
 * Safe: nothing was sent, or the answer says `not-applied`, or the request finds what its first attempt did. By the
 * contract every request does so but `pop`; pushes, claims, additions and writes do if they carry a key, so they are
 * given one here. Helpful: the answer says that the same request may succeed later (`retryable`), and that this is up
 * to the gateway: a 429 or 5xx, or a `conflict` with a change at the same time, but not, for example, a held lock.
 */
import { randomUUID } from 'node:crypto';
import { now, pause } from '../lease/clock.js';
import type { Answer, Operation, OperationsWith, Problem, RequestParts } from '../contract.js';
import { notOfGateway, PosternError, problemError, unreachable } from '../errors.js';
import type { Settings } from '../options.js';
import { NoReplyError, Transport, type Reply } from './transport.js';

/** A gateway that is well answers a request that does not wait within this, in milliseconds. */
const ANSWER_MS = 5_000;
/** The first pause before a repetition is at most this, in milliseconds; it doubles up to the second number. */
const BACKOFF_MS = 50;
const BACKOFF_MAX_MS = 2_000;

/** What a repetition of these would do twice without an `Idempotency-Key`. */
const KEYED: readonly string[] = [
  'POST /v1/queues/{name}/messages',
  'POST /v1/queues/{name}/messages/raw',
  'POST /v1/queues/{name}/claim',
  'POST /v1/counters/{name}/add',
  'PUT /v1/counters/{name}',
  'DELETE /v1/counters/{name}',
  'PUT /v1/config/{key}',
  'DELETE /v1/config/{key}',
  'POST /v1/config',
  'POST /v1/transactions',
  'POST /v1/groups/{name}/messages',
] satisfies OperationsWith<'Idempotency-Key'>[];
const NEVER_REPEATED: Operation = 'POST /v1/queues/{name}/pop';
/** What is answered before a gateway has looked for what an earlier attempt did: 401, 403, 429. */
const UNSEEN: readonly number[] = [401, 403, 429];
/** Answers with what somebody has put there, whatever its type. */
const ANSWERS_BYTES: Operation = 'GET /v1/config/{key}';

export interface CallOptions {
  leaseToken?: string;
  /** For how long it is repeated, beyond the time for which it waits; in milliseconds. */
  patienceMs?: number;
  /**
   * It is repeated, whatever is answered, until a gateway has looked at it, or a signal aborts: for what would stay as
   * it is for as long as heartbeats, which no such answer ends, keep the lease. After a 403 no longer than otherwise.
   */
  insists?: boolean;
  signals?: readonly (AbortSignal | undefined)[];
}

/** A request as `node:http` needs it, but for where it goes. */
interface Prepared {
  operation: Operation;
  method: string;
  target: string;
  headers: Record<string, string>;
  body: string | Uint8Array | undefined;
  waitMs: number;
  signals: readonly AbortSignal[];
}

interface LooseParts {
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  headers?: Record<string, string | undefined>;
  body?: unknown;
}

export class Gateways {
  readonly #settings: Settings;
  readonly #transport: Transport;
  /** Where the next request goes. Clients begin at different replicas, and stay until a request fails. */
  #index: number;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#transport = new Transport(settings.tls);
    this.#index = Math.floor(Math.random() * settings.urls.length);
  }

  /**
   * @returns the answer
   * @throws PosternError if it is a problem, or if there is none, with `outcome` for all attempts together; the reason
   *   of a signal that aborts
   */
  async call<O extends Operation>(operation: O, parts: RequestParts<O>, options: CallOptions = {}): Promise<Answer<O>> {
    const request = this.#prepare(operation, parts, options);
    const patientUntil = now() + request.waitMs + (options.patienceMs ?? this.#settings.patienceMs);
    let mayBeDone = false;
    for (let attempt = 0; ; attempt += 1) {
      const index = this.#index;
      try {
        return (await this.#attempt(request, request.waitMs + ANSWER_MS, index)) as Answer<O>;
      } catch (error) {
        if (!(error instanceof PosternError)) throw error;
        mayBeDone ||= error.outcome === 'unknown';
        if (mayBeDone && !isVerdict(error)) Object.assign(error, { outcome: 'unknown' });
        const again = options.insists ? mustRepeat(error) : mayRepeat(error, operation);
        if (!again) throw error;
        this.failed(index);
        const pauseMs = this.#pauseMs(error, attempt, options.insists ? BACKOFF_MAX_MS : Infinity);
        // A credential that is known and may not do this is worth no more patience than anything else.
        const isPatient = options.insists && error.status !== 403;
        if (!isPatient && now() + pauseMs > patientUntil) throw error;
        await pause(
          pauseMs,
          request.signals.find(({ aborted }) => !aborted),
        );
        for (const signal of request.signals) signal.throwIfAborted();
      }
    }
  }

  /** One attempt, for a caller that has reasons of its own to repeat it. */
  async once<O extends Operation>(
    operation: O,
    parts: RequestParts<O>,
    { timeoutMs, ...options }: CallOptions & { timeoutMs: number },
  ): Promise<Answer<O>> {
    return (await this.#attempt(this.#prepare(operation, parts, options), timeoutMs, this.#index)) as Answer<O>;
  }

  /** Which replica is asked now; to be given to {@link failed}. */
  get index(): number {
    return this.#index;
  }

  /** That replica did not serve a request: the next request goes to another one. */
  failed(index: number): void {
    if (index === this.#index) this.#index = (index + 1) % this.#settings.urls.length;
  }

  close(): void {
    this.#transport.close();
  }

  #prepare<O extends Operation>(operation: O, parts: RequestParts<O>, options: CallOptions): Prepared {
    const { path = {}, query = {}, headers: given = {}, body } = parts as LooseParts;
    const [method = '', template = ''] = operation.split(' ');
    const segments = template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = path[name] ?? '';
      return (name === 'key' ? value.split('/') : [value]).map(encodeURIComponent).join('/');
    });
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(given)) if (value !== undefined) headers[name] = value;
    const raw = body instanceof Uint8Array || (typeof body === 'string' && 'Content-Type' in headers);
    if (body !== undefined && !raw) headers['Content-Type'] = 'application/json';
    if (KEYED.includes(operation) && !hasRequestId(body)) headers['Idempotency-Key'] ??= randomUUID();
    if (options.leaseToken !== undefined) headers['Lease-Token'] = options.leaseToken;
    if (this.#settings.namespace !== undefined) headers['Namespace'] = this.#settings.namespace;
    const { waitMs = query['waitMs'] } = (raw ? {} : (body ?? {})) as { waitMs?: unknown };
    return {
      operation,
      method,
      target: search.size > 0 ? `${segments}?${search.toString()}` : segments,
      headers,
      body: raw || body === undefined ? body : JSON.stringify(body),
      waitMs: Number(waitMs ?? 0),
      signals: (options.signals ?? []).filter((signal) => signal !== undefined),
    };
  }

  async #attempt(request: Prepared, timeoutMs: number, index: number): Promise<unknown> {
    const { method, target, body, signals } = request;
    const base = this.#settings.urls[index] as URL;
    const url = new URL(`${base.origin}${base.pathname.replace(/\/+$/, '')}${target}`);
    const credential = await this.#settings.credential();
    const headers =
      credential === undefined ? request.headers : { ...request.headers, Authorization: `Bearer ${credential}` };
    try {
      const reply = await this.#transport.exchange({ url, method, headers, body, timeoutMs, signals });
      return answerOf(request.operation, reply);
    } catch (error) {
      throw error instanceof NoReplyError ? unreachable(base.origin, error.sent, error.cause) : error;
    }
  }

  /**
   * Full jitter; not before the gateway asks for it, unless there are others that have not been asked yet.
   *
   * @param mostMs what is asked for counts up to this
   */
  #pauseMs({ retryAfterMs = 0, status }: PosternError, attempt: number, mostMs: number): number {
    const jitterMs = Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** attempt);
    const others = status !== 429 && attempt < this.#settings.urls.length - 1;
    return others ? jitterMs : Math.min(retryAfterMs, mostMs) + jitterMs;
  }
}

function mayRepeat({ code, status, retryable, outcome }: PosternError, operation: Operation): boolean {
  if (!retryable) return false;
  if (outcome === 'unknown' && operation === NEVER_REPEATED) return false;
  return status === 0 || status === 429 || status >= 500 || code === 'conflict';
}

/**
 * Whether a gateway has looked at the request, and found what an earlier attempt of it did, or that there was none. It
 * has not if it is at its limit, or does not know the caller any more; and what stands between knows of nothing.
 */
function isVerdict({ code, status, problem, retryable }: PosternError): boolean {
  if (problem === undefined || status >= 500 || UNSEEN.includes(status)) return false;
  return !(code === 'conflict' && retryable);
}

/** Of a request that insists: a lease that does not open is as good as one that has ended. */
function mustRepeat(error: PosternError): boolean {
  return !isVerdict(error) && error.code !== 'invalid-lease-token';
}

function hasRequestId(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'requestId' in body && body.requestId !== undefined;
}

function answerOf(operation: Operation, { status, headers, body }: Reply): unknown {
  const ok = status < 300 || status === 304;
  if (!ok) throw refusal(status, headers['retry-after'], body.toString());
  if (status === 204 || status === 304) return { status, headers, body: undefined };
  if (operation === ANSWERS_BYTES) return { status, headers, body };
  const text = body.toString();
  if (headers['content-type']?.startsWith('application/json')) return { status, headers, body: parsed(status, text) };
  // Only what is read may be a text.
  if (text !== '' && !operation.startsWith('GET ')) throw notOfGateway(status);
  return { status, headers, body: text };
}

function parsed(status: number, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw notOfGateway(status);
  }
}

/** What stands between may answer too, a proxy for example: a status without a problem says nothing of the outcome. */
function refusal(status: number, retryAfter: string | undefined, text: string): PosternError {
  const retryAfterMs = retryAfter === undefined ? undefined : Number(retryAfter) * 1_000 || undefined;
  try {
    const problem = JSON.parse(text) as Problem;
    if (typeof problem.code === 'string') return problemError(problem, retryAfterMs);
  } catch {
    // not JSON: answered by something else
  }
  const retryable = status === 429 || status >= 500;
  const outcome = status >= 500 ? 'unknown' : 'not-applied';
  return new PosternError(`answered ${status}`, { code: 'unreachable', status, retryable, outcome, retryAfterMs });
}
