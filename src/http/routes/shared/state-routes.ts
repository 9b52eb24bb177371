/**
 * `GET` of one state, the same for everything that is observed: the current state, a long poll for its change, or an
 * event stream.
 *
 *   waitMs, If-None-Match ─▶ wait for the observer ─another state─▶ read it ─▶ 200
 *                               │      ▲                              │
 *                  in vain: 304 ┘      └── the known one once more ───┘
 *
 * Unless asked otherwise, the answer is read behind a quorum, by a reading that began after the request arrived and
 * after the observer reported another state. So it shows that state or a later one, and long polls that end with one
 * change share one reading.
 */
import { asShown, lengthShown } from '../../../json-text.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { Observed, Observers, Subject } from '../../../recipes/observing/observers.js';
import { SharedReadings } from '../../../recipes/observing/shared-readings.js';
import { inBytes } from '../../frame/answer.js';
import type { Answer, EventStream, Exchange } from '../../frame/exchange.js';
import { checkEnded, longPollOf, notModified, type LongPoll } from './long-poll.js';
import { stateStream } from './state-stream.js';
import { namespaceOf } from './subject.js';
import type { Told, Watchable } from './watchable.js';

/**
 * What is shown, and how it is read.
 * @typeParam S what observers publish
 * @typeParam V what is read
 */
export interface Shown<T extends Subject, S extends Observed, V> {
  /** The thing's name in error messages. */
  readonly what: string;
  readonly observers: Pick<Observers<NoInfer<T>, S>, 'subscribe' | 'until'>;
  readonly subject: (namespace: string, name: string) => T;
  /** The parameter of the path that is the name; default: `name`. */
  readonly namedBy?: string;
  /** Reads it from the connected server, without a quorum. */
  readonly read: (subject: T, zk: ReturnType<Coordination['control']['until']>) => Promise<V>;
  /** Equals the ETag of the observed state. */
  readonly etagOf: (view: V) => string;
  /** In the words of the contract. */
  readonly show: (view: V, subject: T) => Pick<Answer, 'body' | 'contentType' | 'headers'>;
  /** An event, in the words of the contract. */
  readonly event: (state: S, subject: T) => unknown;
  /** Whether lists have it; default: always. */
  readonly inUse?: (state: S) => boolean;
  /** What a long poll waits for, if not simply a change. */
  readonly pollOf?: (exchange: Exchange) => LongPoll<S | V>;
  /** A wait in vain ends with a reading instead of the observer's state, which is only as new as its last event. */
  readonly readsInVain?: boolean;
}

/** A thing that a path of the contract names. */
export interface Named extends Subject {
  readonly name: string;
}

/** Makes `subject` for things with one node or directory, named by the last part of the path. */
export function named(pathOf: (namespace: string, name: string) => string) {
  return (namespace: string, name: string): Named => ({ name, path: pathOf(namespace, name) });
}

/** Of fewer characters it is put into words each time: to keep them would take more than it saves. */
const KEPT_LENGTH_MIN = 1_024;

/** What is told of a state or of a reading: put into words once, for all who are told of it. */
class KeptWords<W = unknown> {
  readonly #kept = new WeakMap<object, { path: string; words: W }>();

  of(told: unknown, { path }: Subject, find: () => W, lengthOf: (words: W) => number): W {
    const kept = this.#kept.get(told as object);
    // What has never been there may be one state for all subjects.
    if (kept?.path === path) return kept.words;
    const words = find();
    if (lengthOf(words) >= KEPT_LENGTH_MIN) this.#kept.set(told as object, { path, words });
    return words;
  }
}

export class StateRoutes<T extends Subject, S extends Observed, V> implements Watchable {
  readonly #context: Coordination;
  readonly #shown: Shown<T, S, V>;
  readonly #readings: SharedReadings<V>;
  /** For all streams that tell of a state, and all answers that show a reading. */
  readonly #events = new KeptWords();
  readonly #answers = new KeptWords<Answer>();

  constructor(context: Coordination, shown: Shown<T, S, V>) {
    this.#context = context;
    this.#shown = shown;
    this.#readings = new SharedReadings(`the reading of ${shown.what}`);
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const { observers, etagOf, pollOf = longPollOf, readsInVain = false } = this.#shown;
    const subject = await this.subjectOf(exchange);
    const { waitMs, waits, isWanted, isKnown } = pollOf(exchange);
    let since = exchange.receivedAt;
    let seen: string | undefined;
    /** A state that the observer still reports although it is outdated. */
    let outdated: string | undefined;
    const wanted = (state: S): boolean => {
      const { etag } = state;
      seen = etag;
      since = performance.now();
      if (etag === outdated) return false;
      outdated = undefined;
      return isWanted(etag, state);
    };
    while (waits) {
      const state = await observers.until(subject, wanted, exchange.receivedAt + waitMs, exchange.signal);
      if (state === undefined) break;
      const view = await this.#read(exchange, subject, since, waitMs);
      if (isWanted(etagOf(view), view)) return this.answer(view, subject);
      outdated = state.etag;
    }
    if (waits) {
      checkEnded(exchange);
      // If no state was seen, nobody knows that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (seen !== undefined && isKnown(seen) && !readsInVain) return notModified(seen);
      since = Math.min(exchange.receivedAt + waitMs, performance.now());
    }
    const view = await this.#read(exchange, subject, since, waitMs);
    return isKnown(etagOf(view)) ? notModified(etagOf(view)) : this.answer(view, subject);
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const { observers } = this.#shown;
    const subject = await this.subjectOf(exchange);
    return stateStream<S>(
      exchange,
      (subscriber) => observers.subscribe(subject, subscriber),
      (state) => this.#eventOf(state, subject),
    );
  }

  pathOf(namespace: string, name: string): string {
    return this.#shown.subject(namespace, name).path;
  }

  subscribe(namespace: string, name: string, tell: (told: Told) => void): () => void {
    const { observers, inUse } = this.#shown;
    const subject = this.#shown.subject(namespace, name);
    return observers.subscribe(subject, (state) =>
      tell({ etag: state.etag, state: this.#eventOf(state, subject), inUse: inUse?.(state) ?? true }),
    );
  }

  /** The subject of the request, once the caller's right to read it is checked. */
  async subjectOf(exchange: Exchange): Promise<T> {
    const { subject, namedBy = 'name' } = this.#shown;
    const name = exchange.params[namedBy] as string;
    return subject(await namespaceOf(exchange, this.#context.leases), name);
  }

  /**
   * Reads behind a quorum.
   * @param since monotonic: the reading must not have begun before
   */
  readLatest(subject: T, since: number, deadline: number): Promise<V> {
    return this.#readings.read(subject.path, since, deadline, (until) => {
      const zk = this.#context.control.until(until);
      return zk.fresh(() => this.#shown.read(subject, zk));
    });
  }

  answer(view: V, subject: T): Answer {
    const { show, etagOf } = this.#shown;
    const inWords = (): Answer => {
      const shown = show(view, subject);
      return inBytes({ status: 200, ...shown, headers: { ETag: etagOf(view), ...shown.headers } });
    };
    return this.#answers.of(view, subject, inWords, ({ body }) => (Buffer.isBuffer(body) ? body.length : 0));
  }

  #eventOf(state: S, subject: T): unknown {
    return this.#events.of(state, subject, () => asShown(this.#shown.event(state, subject)), lengthShown);
  }

  #read({ query, deadline }: Exchange, subject: T, since: number, waitMs: number): Promise<V> {
    if (query['consistency'] !== 'stale') return this.readLatest(subject, since, deadline + waitMs);
    const { control } = this.#context;
    return this.#readings.read(`stale ${subject.path}`, since, deadline + waitMs, (until) =>
      this.#shown.read(subject, control.until(until)),
    );
  }
}
