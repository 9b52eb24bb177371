/**
 * Removes the marks of operations once these can no longer be repeated. A mark's age is how long this replica has seen
 * it, so marks need not be read; a replica that takes over starts counting anew. The directories, at most 256 in a
 * namespace, stay.
 */
import { MINUTE } from '../../time.js';
import { unless } from '../../zookeeper/errors.js';
import type { Chore } from './housekeeping.js';
import type { Sweep } from './sweep.js';

/** So long a repeat is recognised, at least. */
export const MARK_MS = 5 * MINUTE;

export class TidyMarks implements Chore {
  readonly #marksIn: (namespace: string) => string;
  readonly #markMs: number;
  /** When each was seen first, monotonic. */
  #seen = new Map<string, number>();

  /** @param marksIn the node below which the directories of the marks are, in a namespace */
  constructor(marksIn: (namespace: string) => string, markMs = MARK_MS) {
    this.#marksIn = marksIn;
    this.#markMs = markMs;
  }

  async sweep(sweep: Sweep): Promise<void> {
    const now = performance.now();
    const seen = new Map<string, number>();
    const old: string[] = [];
    await sweep.eachNamespace(async (namespace) => {
      const directory = this.#marksIn(namespace);
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
