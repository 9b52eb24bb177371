/**
 * Observers for long polls and event streams: one observer, and one set of watches, per path and replica, however many
 * clients subscribe. A change costs one notification and one reading per replica.
 *
 *   subscribe ─▶ sync ─▶ look (watch, read, publish) ─▶ wait for an event ─▶ look …
 *     ─▶ the last subscriber has gone: watches removed
 *
 * The first state is read after a `sync`, each later one after its event on the same connection, so an observer never
 * goes back in time. Without a connection the last state stays; once the connection is back, the state is read again
 * after a `sync`.
 */
import { fullJitter, pause } from '../../time.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import type { Watch } from '../../zookeeper/watch.js';
import { Telling, type Subscriber } from './telling.js';
import { Turns } from './turns.js';

/** What is looked at: two subjects of one path are the same. */
export interface Subject {
  readonly path: string;
}

/** What is published. */
export interface Observed {
  /** As clients are told it: equal ETags mean equal states to them. */
  etag: string;
  /** Where those who wait have to learn of more than clients are shown: tells states of one ETag apart. */
  moment?: number | undefined;
}

/** One look: sets its watches, reads, publishes. */
export interface Look<S extends Observed> {
  /** The listener for every watch that this look sets. Whoever calls it causes another look. */
  readonly wake: () => void;
  /** Hands over a watch, or whatever else wakes, to be cancelled when the look is over. */
  readonly keep: (watch: Pick<Watch, 'cancel'> | undefined) => void;
  /** Tells the subscribers, unless they know it: some at once, and where there are many, the others by and by. */
  readonly publish: (state: S) => void;
  /** Resolves when the subscribers know what was published last, with how many ms that took after `publish`. */
  readonly told: () => Promise<number>;
  /** What was published last. */
  readonly known: S | undefined;
  /** For every request of this look, on the monotonic clock. */
  readonly deadline: number;
  /** Aborted when nobody looks any more. */
  readonly signal: AbortSignal;
}

/** What a look ends with: wait for an event, or look again at once because something changed while it read. */
export type LookResult = 'wait' | 'again';

/** How to look at a subject (`looks.ts` has those of the shapes that repeat). */
export type LookAt<T extends Subject, S extends Observed> = (subject: T, look: Look<S>) => Promise<LookResult>;

const READ_MS = 10_000;
const RETRY_BASE_MS = 20;
const RETRY_CAP_MS = 1_000;

/** Of all subjects of a kind, of one replica. */
export class Observers<T extends Subject, S extends Observed> {
  readonly #control: ControlSession;
  readonly #lookAt: LookAt<T, S>;
  readonly #turns = new Turns();
  /** By path. */
  readonly #observers = new Map<string, Observer<S>>();

  constructor(control: ControlSession, lookAt: LookAt<T, S>) {
    this.#control = control;
    this.#lookAt = lookAt;
  }

  get size(): number {
    return this.#observers.size;
  }

  /**
   * Calls `subscriber` with the state as soon as it is known, and with every change, until the returned function is
   * called.
   */
  subscribe(subject: T, subscriber: Subscriber<S>): () => void {
    return this.#subscribe(subject, subscriber, false);
  }

  /** @param waits for one state */
  #subscribe(subject: T, subscriber: Subscriber<S>, waits: boolean): () => void {
    const { path } = subject;
    let observer = this.#observers.get(path);
    if (observer === undefined) {
      observer = new Observer(this.#control, this.#turns, path, (look) => this.#lookAt(subject, look));
      this.#observers.set(path, observer);
    }
    const subscribed = observer;
    subscribed.add(subscriber, waits);
    return () => {
      if (!subscribed.remove(subscriber)) return;
      if (this.#observers.get(path) === subscribed) this.#observers.delete(path);
    };
  }

  /** Resolves with the first state that is `wanted`, or undefined at the deadline or when the signal is aborted. */
  until(subject: T, wanted: (state: S) => boolean, deadline: number, signal: AbortSignal): Promise<S | undefined> {
    return new Promise((resolve) => {
      const finish = (state: S | undefined): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        // The first call may come before `subscribe` has returned.
        queueMicrotask(() => unsubscribe());
        resolve(state);
      };
      const onAbort = (): void => finish(undefined);
      const timer = setTimeout(() => finish(undefined), Math.max(0, deadline - performance.now()));
      signal.addEventListener('abort', onAbort, { once: true });
      const tell = (state: S): void => {
        if (wanted(state)) finish(state);
      };
      const unsubscribe = this.#subscribe(subject, tell, true);
      if (signal.aborted) onAbort();
    });
  }
}

class Observer<S extends Observed> {
  readonly #control: ControlSession;
  readonly #path: string;
  readonly #look: (look: Look<S>) => Promise<LookResult>;
  readonly #subscribers = new Set<Subscriber<S>>();
  /** Those who wait for one state: told of it in the same moment, so that they share the reading that follows. */
  readonly #waiting = new Set<Subscriber<S>>();
  readonly #telling: Telling<S>;
  #isStopped = false;
  /** Created on demand: most looks ask nobody else to wait, and it is larger than all the rest. */
  #controller: AbortController | undefined;
  /** Ends the wait for the next look. */
  #wake = (): void => undefined;
  #state: S | undefined;

  constructor(control: ControlSession, turns: Turns, path: string, look: (look: Look<S>) => Promise<LookResult>) {
    this.#control = control;
    this.#telling = new Telling(turns, this.#subscribers, (error) => control.listenerFailed(error));
    this.#path = path;
    this.#look = look;
    void this.#run();
  }

  add(subscriber: Subscriber<S>, waits: boolean): void {
    (waits ? this.#waiting : this.#subscribers).add(subscriber);
    if (this.#state !== undefined) subscriber(this.#state);
  }

  /** @returns whether it was the last one, and the observer has stopped */
  remove(subscriber: Subscriber<S>): boolean {
    this.#subscribers.delete(subscriber);
    this.#waiting.delete(subscriber);
    if (this.#subscribers.size + this.#waiting.size > 0) return false;
    this.#isStopped = true;
    this.#controller?.abort();
    this.#wake();
    return true;
  }

  get #signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#isStopped) this.#controller.abort();
    return this.#controller.signal;
  }

  async #run(): Promise<void> {
    let failures = 0;
    let synced = false;
    while (!this.#isStopped) {
      try {
        if (!synced) await this.#control.sync(this.#path, performance.now() + READ_MS);
        synced = true;
        await this.#once();
        failures = 0;
      } catch {
        // No connection: what is shown stays until there is one again.
        synced = false;
        failures += 1;
        await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS), this.#signal);
      }
    }
  }

  /** One look; returns when there is reason for the next. */
  async #once(): Promise<void> {
    const woken = new Promise<void>((resolve) => (this.#wake = resolve));
    const set: Pick<Watch, 'cancel'>[] = [];
    try {
      const result = await this.#look(this.#lookWith(this.#wake, set));
      await this.#telling.told;
      if (result === 'wait' && !this.#isStopped) await woken;
    } finally {
      for (const watch of set) watch.cancel();
    }
  }

  #lookWith(wake: () => void, set: Pick<Watch, 'cancel'>[]): Look<S> {
    const signal = (): AbortSignal => this.#signal;
    return {
      wake,
      keep: (watch) => void (watch !== undefined && set.push(watch)),
      publish: (state) => this.#publish(state),
      told: () => this.#telling.told,
      known: this.#state,
      deadline: performance.now() + READ_MS,
      get signal() {
        return signal();
      },
    };
  }

  #publish(state: S): void {
    if (state.etag === this.#state?.etag && state.moment === this.#state.moment) return;
    this.#state = state;
    for (const subscriber of [...this.#waiting]) subscriber(state);
    this.#telling.tell(state);
  }
}
