/**
 * Housekeeping of groups in which nobody has been for long, and of the divisions of work that lie beside those that are
 * gone.
 */
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import { IdleDirectories } from '../housekeeping/idle-directories.js';
import { quietly, type Sweep } from '../housekeeping/sweep.js';

export class TidyGroups implements Chore {
  readonly #context: Coordination;
  readonly #directories: IdleDirectories;

  constructor(context: Coordination, idleMs: number) {
    this.#context = context;
    this.#directories = new IdleDirectories(context, idleMs);
  }

  async sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    await this.#directories.sweep(sweep, (namespace) => layout.groups(namespace));
    await sweep.eachNamespace(async (namespace) => {
      for (const group of await sweep.children(layout.allShares(namespace)))
        if (!sweep.stopped) await this.#tidyShares(namespace, group, sweep);
    });
  }

  /**
   * Divisions of a group that has long been empty are of use to nobody. They are removed as they were while there was
   * no group: of one that is made meanwhile, the first division that was told stays (`shares.ts`).
   */
  async #tidyShares(namespace: string, group: string, sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    const zk = sweep.zk();
    const isThere = async (): Promise<boolean> => {
      await zk.sync(layout.group(namespace, group));
      return (await zk.exists(layout.group(namespace, group))) !== undefined;
    };
    if (await isThere()) return;
    const directory = layout.sharesOf(namespace, group);
    const paths = (await sweep.children(directory)).map((of) => `${directory}/${of}`);
    const stats = await Promise.all(paths.map((path) => zk.exists(path)));
    if (await isThere()) return;
    for (const [i, path] of paths.entries()) {
      const stat = stats[i];
      if (stat !== undefined) await quietly(zk.remove(path, stat.version));
    }
    await quietly(zk.remove(directory));
  }
}
