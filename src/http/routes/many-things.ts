/**
 * What one reader is told of many things: all of them at first, as soon as every state is known, then each change.
 *
 *   subscriptions ─▶ `tell` ─▶ pending, the newest of each thing ─▶ as the reader takes them
 *
 * `state` has what fits into one event, and the rest follows as `changed`. A reader that does not keep up misses states
 * in between, and what waits for it is bounded by the number of things.
 */
import { BrokenRulesError, type PosternError } from '../../errors.js';
import { asShown, lengthShown } from '../../json-text.js';
import type { Turns, Work } from '../../recipes/observing/turns.js';
import type { WatchedShare } from '../../recipes/observing/watched.js';
import { instant } from '../../time.js';
import type { EventSink } from '../frame/exchange.js';
import type { Told } from './shared/watchable.js';

/** What is not known by then follows as a change: nobody tells of a node that another program has put in the way. */
const BEGIN_MS = 5_000;
/** So many states are sent at the beginning of a stream. */
export const THINGS_MAX = 10_000;
/** So many characters of states are sent in one event; the first of them may be longer, as in its own stream. */
const STATE_MAX = 256 * 1024;

export interface Thing {
  readonly kind: string;
  readonly name: string;
}

/** Undefined: there is none, or none any more. */
type State = Pick<Told, 'etag' | 'state'> | undefined;

export interface ManyThingsOptions {
  readonly sink: EventSink;
  /** In which each subscription counts. */
  readonly share: WatchedShare;
  /** In which subscriptions begin and end. */
  readonly turns: Turns;
  /** Called at most once: the stream ends with this problem. */
  readonly onFail: (error: Error) => void;
}

export class ManyThings {
  readonly #options: ManyThingsOptions;
  /** Of those whose names are not known yet, one of which is the set-up itself. */
  #unlisted = 1;
  /** Things whose first state is not known yet. */
  readonly #awaited = new Set<string>();
  readonly #subscriptions = new Map<string, () => void>();
  /** Things taken from the share, whether they are subscribed to yet or not. */
  #taken = 0;
  /** The ETags of what the reader knows, or is about to be told. */
  readonly #known = new Map<string, string>();
  readonly #pending = new Map<string, Thing & { state: State }>();
  #hasBegun = false;
  #isLate = false;
  readonly #latest = setTimeout(() => {
    this.#isLate = true;
    this.#flush();
  }, BEGIN_MS);
  #isResting = false;
  #isClosed = false;

  constructor(options: ManyThingsOptions) {
    this.#options = options;
  }

  /** Nothing more is told. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Ends the stream with a problem. */
  fail(error: Error): void {
    if (this.#isClosed) return;
    this.close();
    this.#options.onFail(error);
  }

  /** Does a piece of work for the stream, which fails if that throws. */
  run(work: Work): void {
    this.#options.turns.add(work, (error) => this.fail(error));
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
   * Makes room for so many more things, or fails the stream before any of them costs anything.
   * @param prefixes they count in the share, but are nothing that the reader is told of
   * @returns whether there is room; call `watch` for each of the things
   */
  take(count: number, prefixes = 0): boolean {
    if (this.#isClosed) return false;
    const refused = this.#taken + count > THINGS_MAX ? tooManyThings() : this.#options.share.take(count + prefixes);
    if (refused === undefined) this.#taken += count;
    else this.fail(refused);
    return refused === undefined;
  }

  /**
   * @param thing there is room for it (`take`), and it is not watched yet
   * @param subscribe calls back with each state until the function that it returns is called
   */
  watch(thing: Thing, subscribe: (tell: (state: State) => void) => () => void): void {
    const key = keyOf(thing);
    if (!this.#hasBegun) this.#awaited.add(key);
    this.#subscriptions.set(
      key,
      subscribe((state) => this.tell(thing, state)),
    );
  }

  /** Whether it has a subscription of its own. */
  watches(thing: Thing): boolean {
    return this.#subscriptions.has(keyOf(thing));
  }

  /** It is in its list no more. */
  forget(thing: Thing): void {
    const key = keyOf(thing);
    const unsubscribe = this.#subscriptions.get(key);
    if (this.#isClosed || unsubscribe === undefined) return;
    unsubscribe();
    this.#subscriptions.delete(key);
    this.#taken -= 1;
    this.#options.share.give(1);
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
      if (this.#known.size > THINGS_MAX) return this.fail(tooManyThings());
      this.#pending.set(key, { ...thing, state });
    }
    this.#flush();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#latest);
    this.#pending.clear();
    this.#known.clear();
    this.run(this.#leave());
  }

  /** What is still watched stays counted. */
  *#leave(): Work {
    for (const unsubscribe of this.#subscriptions.values()) {
      unsubscribe();
      yield;
    }
    this.#subscriptions.clear();
    this.#options.share.close();
  }

  #flush(): void {
    if (this.#isClosed || this.#isResting) return;
    try {
      if (!this.#hasBegun && this.#canBegin) this.#begin();
      if (this.#hasBegun) this.#tellPending();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  get #canBegin(): boolean {
    return this.#isLate || (this.#unlisted === 0 && this.#awaited.size === 0);
  }

  #begin(): void {
    this.#hasBegun = true;
    clearTimeout(this.#latest);
    this.#awaited.clear();
    for (const [key, { state }] of this.#pending) if (state === undefined) this.#pending.delete(key);
    const items = this.#takeFirst();
    const more = this.#pending.size === 0 ? undefined : this.#pending.size;
    const { lastEventId: gapSince } = this.#options.sink;
    this.#send('state', { items, more, gapSince });
  }

  #tellPending(): void {
    for (const [key, { kind, name, state }] of this.#pending) {
      const caughtUp = this.#options.sink.caughtUp();
      if (caughtUp !== undefined) return this.#restUntil(caughtUp);
      this.#pending.delete(key);
      if (state === undefined) this.#send('gone', { kind, name });
      else this.#send('changed', { kind, name, state: state.state });
    }
  }

  /** As many of what is pending as fit into one event. */
  #takeFirst(): unknown[] {
    const items: unknown[] = [];
    let length = 0;
    for (const [key, { kind, name, state }] of this.#pending) {
      const item = asShown({ kind, name, state: state?.state });
      length += lengthShown(item);
      if (length > STATE_MAX && items.length > 0) break;
      items.push(item);
      this.#pending.delete(key);
    }
    return items;
  }

  #send(event: string, data: unknown): void {
    this.#options.sink.send({ event, id: instant(Date.now()), data });
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
