/**
 * How long directories have been unused, as seen by this replica from one sweep to the next; for chores that remove
 * them after a while. A sweep that fails half-way keeps the previous knowledge, as does a namespace in which it fails.
 */
import type { Sweep } from './sweep.js';

export interface Idle {
  /** The last change to the directory's children. */
  pzxid: number;
  /** Monotonic. */
  since: number;
}

/** @typeParam T what is remembered of a directory */
export class IdleTimes<T extends Idle> {
  /** By namespace, and there by directory. */
  #known = new Map<string, ReadonlyMap<string, T>>();

  /**
   * One sweep over all directories.
   * @param parentsIn the nodes below which they stand, in a namespace
   * @param tidy told what is known of a directory; returns what is to be remembered, undefined of one that is in use or
   *   was removed
   */
  async sweep<P extends { path: string }>(
    sweep: Sweep,
    parentsIn: (namespace: string) => readonly P[],
    tidy: (directory: string, before: T | undefined, parent: P) => Promise<T | undefined>,
  ): Promise<void> {
    const seen = new Map<string, ReadonlyMap<string, T>>();
    await sweep.eachNamespace(async (namespace) => {
      const known = this.#known.get(namespace);
      if (known !== undefined) seen.set(namespace, known);
      const here = new Map<string, T>();
      for (const parent of parentsIn(namespace)) {
        const names = await sweep.children(parent.path);
        await sweep.each(names, async (name) => {
          const directory = `${parent.path}/${name}`;
          const idle = await tidy(directory, known?.get(directory), parent);
          if (idle !== undefined) here.set(directory, idle);
        });
      }
      seen.set(namespace, here);
    });
    this.#known = seen;
  }

  forget(): void {
    this.#known.clear();
  }
}
