/**
 * Watching counters, for long polls and event streams (`observers.ts`): one watch per counter and replica, on its node, or for it to
 * appear. A counter may change a thousand times a second; who looks is told of it some ten times a second at most, always with the newest value.
 */
import { pause } from '../../time.js';
import type { Coordination } from '../coordination.js';
import { Observers, type Look, type LookResult } from '../observers.js';
import { valueOf } from './counter.js';

export interface CounterState {
  value: number;
  /** Never used again: of the node's creation and version. */
  etag: string;
}

const BETWEEN_MS = 100;
/** Of a counter that was never changed. */
export const UNUSED_COUNTER: CounterState = { value: 0, etag: '"0-0"' };

export function counterEtag({ czxid, version }: { czxid: number; version: number }): string {
  return `"${czxid}-${version}"`;
}

export class CounterObservers {
  readonly #context: Coordination;
  readonly #observers: Observers<undefined, CounterState>;

  constructor(context: Coordination) {
    this.#context = context;
    this.#observers = new Observers(context.control, (path, _, look) => this.#look(path, look));
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the counter as soon as it is known, and with its changes, until the returned function is called. */
  subscribe(namespace: string, name: string, subscriber: (state: CounterState) => void): () => void {
    return this.#observers.subscribe(this.#context.layout.counter(namespace, name), undefined, subscriber);
  }

  /** Resolves with the first state whose etag is not known, or undefined at the deadline or when the signal is aborted. */
  changed(
    namespace: string,
    name: string,
    isKnown: (etag: string) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<CounterState | undefined> {
    const path = this.#context.layout.counter(namespace, name);
    return this.#observers.until(path, undefined, ({ etag }) => !isKnown(etag), deadline, signal);
  }

  async #look(path: string, look: Look<CounterState>): Promise<LookResult> {
    if (look.known !== undefined) await pause(BETWEEN_MS, look.signal);
    const { watches } = this.#context.control;
    const present = await watches.getData(path, look.wake, look.deadline);
    look.keep(present.watch);
    if (present.value === undefined) {
      const absent = await watches.exists(path, look.wake, look.deadline);
      look.keep(absent.watch);
      if (absent.value !== undefined) return 'again';
      look.publish(UNUSED_COUNTER);
      return 'wait';
    }
    const value = valueOf(present.value.data);
    // What somebody else has put there is no counter: nothing is told of it.
    if (value !== undefined) look.publish({ value, etag: counterEtag(present.value.stat) });
    return 'wait';
  }
}
