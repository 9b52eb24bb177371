/**
 * What one reader is told of many things: all of them in one event as soon as every state is known, then each change.
 *
 *   subscriptions ─▶ `tell` ─▶ pending, the newest of each thing ─▶ as the reader takes them
 *
 * A reader that does not keep up misses states in between, and what waits for it is bounded by the number of things.
 */
import { BrokenRulesError, PosternError } from '../../errors.js';
import type { Watched } from '../../recipes/observing/watched.js';
import { instant } from '../../time.js';
import type { EventSink } from '../frame/exchange.js';
import type { Told } from './shared/watchable.js';

/** What is not known by then follows as a change: nobody tells of a node that another program has put in the way. */
const BEGIN_MS = 5_000;
/** So many states are sent at the beginning of a stream: some megabytes. */
export const THINGS_MAX = 10_000;

export interface Thing {
  readonly kind: string;
  readonly name: string;
}

/** Undefined: there is none, or none any more. */
type State = Pick<Told, 'etag' | 'state'> | undefined;

export class ManyThings {
  /** Ends the stream with a problem. */
  readonly fail: (error: Error) => void;
  readonly #sink: EventSink;
  readonly #watched: Watched;
  /** Of those whose names are not known yet, one of which is the set-up itself. */
  #unlisted = 1;
  /** Things whose first state is not known yet. */
  readonly #awaited = new Set<string>();
  readonly #subscriptions = new Map<string, () => void>();
  /** The ETags of what the reader knows, or is about to be told. */
  readonly #known = new Map<string, string>();
  readonly #pending = new Map<string, Thing & { state: State }>();
  #hasBegun = false;
  readonly #latest = setTimeout(() => this.#begin(), BEGIN_MS);
  #isResting = false;
  #isClosed = false;

  /**
   * @param watched what all streams watch, in which each subscription counts
   */
  constructor(sink: EventSink, watched: Watched, fail: (error: Error) => void) {
    this.#sink = sink;
    this.#watched = watched;
    this.fail = fail;
  }

  /** One more list of names has to be known before anything is told; call `listed` when it is. */
  lists(): void {
    this.#unlisted += 1;
  }

  listed(): void {
    this.#unlisted -= 1;
    this.#flush();
  }

  /**
   * @param subscribe calls back with each state until the function that it returns is called
   * @returns whether it was not watched before, and is now
   */
  watch(thing: Thing, subscribe: (tell: (state: State) => void) => () => void): boolean {
    const key = keyOf(thing);
    if (this.#isClosed || this.#subscriptions.has(key)) return false;
    if (this.#subscriptions.size >= THINGS_MAX) return this.#refuse(tooManyThings());
    if (!this.#watched.take(1, 0)) return this.#refuse(tooManyWatched(this.#watched.max));
    // Overwritten below: the first call may come before `subscribe` has returned.
    this.#subscriptions.set(key, () => undefined);
    if (!this.#hasBegun) this.#awaited.add(key);
    const unsubscribe = subscribe((state) => this.tell(thing, state));
    this.#subscriptions.set(key, unsubscribe);
    return true;
  }

  /** Whether it has a subscription of its own. */
  watches(thing: Thing): boolean {
    return this.#subscriptions.has(keyOf(thing));
  }

  /** It is in its list no more. */
  forget(thing: Thing): void {
    const key = keyOf(thing);
    const unsubscribe = this.#subscriptions.get(key);
    if (unsubscribe === undefined) return;
    unsubscribe();
    this.#subscriptions.delete(key);
    this.#watched.take(0, 1);
    this.tell(thing, undefined);
  }

  tell(thing: Thing, state: State): void {
    if (this.#isClosed) return;
    const key = keyOf(thing);
    this.#awaited.delete(key);
    const known = this.#known.get(key);
    if (known !== state?.etag) {
      if (state === undefined) this.#known.delete(key);
      else this.#known.set(key, state.etag);
      this.#pending.set(key, { ...thing, state });
    }
    this.#flush();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#latest);
    for (const unsubscribe of this.#subscriptions.values()) unsubscribe();
    this.#watched.take(0, this.#subscriptions.size);
  }

  #refuse(error: Error): false {
    this.fail(error);
    return false;
  }

  #flush(): void {
    if (!this.#hasBegun) return this.#isComplete ? this.#begin() : undefined;
    if (this.#isResting) return;
    for (const [key, { kind, name, state }] of this.#pending) {
      const caughtUp = this.#sink.caughtUp();
      if (caughtUp !== undefined) return this.#restUntil(caughtUp);
      this.#pending.delete(key);
      if (state === undefined) this.#send('gone', { kind, name });
      else this.#send('changed', { kind, name, state: state.state });
    }
  }

  get #isComplete(): boolean {
    return this.#unlisted === 0 && this.#awaited.size === 0;
  }

  #begin(): void {
    if (this.#hasBegun || this.#isClosed) return;
    this.#hasBegun = true;
    clearTimeout(this.#latest);
    const items = [...this.#pending.values()].flatMap(({ kind, name, state }) =>
      state === undefined ? [] : [{ kind, name, state: state.state }],
    );
    this.#pending.clear();
    const { lastEventId } = this.#sink;
    this.#send('state', { items, ...(lastEventId === undefined ? {} : { gapSince: lastEventId }) });
  }

  #send(event: string, data: unknown): void {
    this.#sink.send({ event, id: instant(Date.now()), data });
  }

  #restUntil(caughtUp: Promise<void>): void {
    this.#isResting = true;
    void caughtUp.then(() => {
      this.#isResting = false;
      this.#flush();
    });
  }
}

function keyOf({ kind, name }: Thing): string {
  return `${kind}:${name}`;
}

function tooManyThings(): PosternError {
  const detail = `This stream would tell of more than ${THINGS_MAX} things; watch longer prefixes.`;
  return new BrokenRulesError('query', [{ field: 'watch', detail }], { maxThings: THINGS_MAX });
}

function tooManyWatched(max: number): PosternError {
  return new PosternError(
    'overloaded',
    `The streams of this replica watch as many names as they may together (${max}); ask another one, or watch longer prefixes.`,
    { members: { maxThings: max } },
  );
}
