/**
 * Removes the marks of counter operations once they can no longer be repeated. A mark's age is how long this replica
 * has seen it, so marks need not be read; a replica that takes over starts counting anew. The directories, at most 256
 * in a namespace, stay.
 */
import { MINUTE } from '../../time.js';
import { unless } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import type { Sweep } from '../housekeeping/sweep.js';

/** So long a repeat is recognised, at least. */
export const COUNTER_MARK_MS = 5 * MINUTE;

export class TidyCounterMarks implements Chore {
  readonly #context: Coordination;
  readonly #markMs: number;
  /** When each was seen first, monotonic. */
  #seen = new Map<string, number>();

  constructor(context: Coordination, markMs = COUNTER_MARK_MS) {
    this.#context = context;
    this.#markMs = markMs;
  }

  async sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    const now = performance.now();
    const seen = new Map<string, number>();
    const old: string[] = [];
    await sweep.eachNamespace(async (namespace) => {
      const directory = layout.counterMarks(namespace);
      for (const bucket of await sweep.children(directory)) {
        if (sweep.stopped) return;
        for (const name of await sweep.children(`${directory}/${bucket}`)) {
          const path = `${directory}/${bucket}/${name}`;
          const since = this.#seen.get(path) ?? now;
          if (now - since < this.#markMs) seen.set(path, since);
          else old.push(path);
        }
      }
    });
    if (sweep.stopped) return;
    this.#seen = seen;
    await sweep.each(old, (path) => unless(sweep.zk().remove(path), 'NO_NODE'));
  }

  /** What the other one removes may be made again. */
  handedOver(): void {
    this.#seen.clear();
  }
}
