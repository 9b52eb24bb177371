/**
 * The one event stream of a tab. It is read by `fetch`, because `EventSource` cannot send a key.
 *
 *   connecting ─▶ live ─▶ `reconnect` of the gateway ─▶ connecting, from the last event on
 *        │          └───▶ cut off, or silent for too long ─▶ lost
 *        ├─▶ nobody answers ─▶ lost: tried again, each time after a longer pause, and lost until it is told something
 *        ├─▶ 403 for a kind ─▶ connecting, without that kind
 *        └─▶ 401, more things than a stream has ─▶ stopped: only the user can help
 */
import { EventLines, type StreamedEvent } from './event-lines.js';
import { KINDS, isKind, type Kind } from './contract.js';
import { addressOf, fetchAs, type Caller } from './request.js';
import { Refusal, refusalOf, type Refused, Unreachable } from './refusal.js';
import { backoffMs } from './backoff.js';

/** The gateway sends a comment every 15 seconds: after three of them were missed the connection is dead. */
const SILENCE_MS = 45_000;
/** A stream that lasts less has failed, whatever it told. */
const PROVEN_MS = 30_000;

export type Connection =
  | { readonly state: 'connecting'; readonly since: number }
  | { readonly state: 'live' }
  | { readonly state: 'lost'; readonly why: string; readonly retryAt: number }
  | { readonly state: 'stopped'; readonly problem: Refused };

export interface StreamListener {
  connection(now: Connection): void;
  /** `state`, `changed` and `gone`. */
  event(event: StreamedEvent): void;
  /** The caller may read nothing of this kind. */
  denied(kind: Kind, refusal: Refusal): void;
}

export class Stream {
  readonly #caller: Caller;
  readonly #prefix: string;
  readonly #listener: StreamListener;
  readonly #closed = new AbortController();
  readonly #kinds = new Set<Kind>(KINDS);
  #lastEventId: string | undefined;
  #failures = 0;
  #isLost = false;
  #wake: (() => void) | undefined;

  /** @param prefix names that begin with this are watched */
  constructor(caller: Caller, prefix: string, listener: StreamListener) {
    this.#caller = caller;
    this.#prefix = prefix;
    this.#listener = listener;
  }

  open(): void {
    void this.#run();
  }

  close(): void {
    this.#closed.abort();
    this.#wake?.();
  }

  /** Tries again without waiting for the rest of the pause. */
  retryNow(): void {
    this.#wake?.();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted && this.#kinds.size > 0) {
      if (!this.#isLost) this.#listener.connection({ state: 'connecting', since: Date.now() });
      try {
        const pauseMs = await this.#once();
        if (pauseMs > 0) await this.#pause(pauseMs);
      } catch (error) {
        if (signal.aborted) return;
        if (!(await this.#failed(error))) return;
      }
    }
  }

  /** @returns whether to go on */
  async #failed(error: unknown): Promise<boolean> {
    if (error instanceof Refusal) {
      const { problem } = error;
      // Of one name: the others are told of by the next stream, which leaves that one out.
      const isOfOneName = problem.code === 'forbidden' && problem.name !== undefined;
      if (problem.code === 'forbidden' && !isOfOneName && problem.kind !== undefined && isKind(problem.kind)) {
        this.#kinds.delete(problem.kind);
        this.#listener.denied(problem.kind, error);
        if (this.#kinds.size > 0) return true;
      }
      if (isForGood(problem) && !isOfOneName) {
        this.#listener.connection({ state: 'stopped', problem });
        return false;
      }
    }
    const waitMs = backoffMs(this.#failures++, Math.random());
    const why = error instanceof Error ? error.message : String(error);
    this.#isLost = true;
    this.#listener.connection({ state: 'lost', why, retryAt: Date.now() + waitMs });
    await this.#pause(waitMs);
    return true;
  }

  /** Reads one stream to its end. @returns how long to wait before the next one, ms */
  async #once(): Promise<number> {
    const begunAt = performance.now();
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      const response = await this.#request(AbortSignal.any([this.#closed.signal, silent.signal]));
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      const [decoder, lines] = [new TextDecoder(), new EventLines()];
      for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Unreachable('the stream has ended without a word');
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE_MS);
        if (performance.now() - begunAt > PROVEN_MS) this.#failures = 0;
        for (const event of lines.read(decoder.decode(value, { stream: true }))) {
          if (event.event === 'reconnect') return event.retryMs ?? 0;
          this.#take(event);
        }
      }
    } catch (error) {
      throw error instanceof Refusal ? error : new Unreachable(error);
    } finally {
      clearTimeout(timer);
      silent.abort();
    }
  }

  async #request(signal: AbortSignal): Promise<Response> {
    const watch = [...this.#kinds].map((kind) => `${kind}:${this.#prefix}*`).join(',');
    const response = await fetchAs(this.#caller, addressOf({ path: ['events'], query: { watch } }), {
      headers: {
        Accept: 'text/event-stream',
        Namespace: this.#caller.namespace,
        ...(this.#lastEventId === undefined ? {} : { 'Last-Event-ID': this.#lastEventId }),
      },
      signal,
    });
    if (!response.ok) throw await refusalOf(response, this.#caller.key);
    return response;
  }

  #take(event: StreamedEvent): void {
    if (event.event === 'problem') throw new Refusal(event.data as Refused, this.#caller.key);
    if (event.event === 'too-slow') throw new Unreachable('this page did not keep up');
    if (event.id !== undefined) this.#lastEventId = event.id;
    if (event.event === 'state') {
      this.#isLost = false;
      this.#caller.onAccepted();
      this.#listener.connection({ state: 'live' });
    }
    this.#listener.event(event);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#wake = done;
    });
  }
}

/** What does not pass of itself. */
function isForGood({ code, status }: Refused): boolean {
  return status === 401 || code === 'invalid' || code === 'forbidden';
}
