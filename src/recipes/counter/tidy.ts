/**
 * The marks of operations on counters, removed when nobody may repeat them any more. How old one is, the replica knows that has seen it for
 * so long: nothing of it need be read, and one that takes over begins to count anew. The directories, at most 256 in a namespace, stay.
 */
import { MINUTE } from '../../time.js';
import { unless } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping.js';

/** So long a repeat is recognised, at least. */
export const COUNTER_MARK_MS = 5 * MINUTE;

const AT_ONCE = 64;
const REQUEST_MS = 10_000;

export class TidyCounterMarks implements Chore {
  readonly #context: Coordination;
  readonly #markMs: number;
  /** When each was seen first, monotonic. */
  #seen = new Map<string, number>();

  constructor(context: Coordination, markMs = COUNTER_MARK_MS) {
    this.#context = context;
    this.#markMs = markMs;
  }

  async sweep(stopped: () => boolean): Promise<void> {
    const { control, layout } = this.#context;
    const now = performance.now();
    const seen = new Map<string, number>();
    const old: string[] = [];
    for (const namespace of await this.#children(layout.namespaces)) {
      const directory = layout.counterMarks(namespace);
      for (const bucket of await this.#children(directory)) {
        if (stopped()) return;
        for (const name of await this.#children(`${directory}/${bucket}`)) {
          const path = `${directory}/${bucket}/${name}`;
          const since = this.#seen.get(path) ?? now;
          if (now - since < this.#markMs) seen.set(path, since);
          else old.push(path);
        }
      }
    }
    this.#seen = seen;
    for (let i = 0; i < old.length && !stopped(); i += AT_ONCE) {
      const deadline = performance.now() + REQUEST_MS;
      await Promise.all(
        old.slice(i, i + AT_ONCE).map((path) => unless(control.delete(path, undefined, deadline), 'NO_NODE')),
      );
    }
  }

  async #children(path: string): Promise<string[]> {
    return (
      (await unless(this.#context.control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? []
    );
  }
}
