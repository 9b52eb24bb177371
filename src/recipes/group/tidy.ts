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

  /** Divisions of a group that has long been empty are of use to nobody. */
  async #tidyShares(namespace: string, group: string, sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    const zk = sweep.zk();
    await zk.sync(layout.group(namespace, group));
    if ((await zk.exists(layout.group(namespace, group))) !== undefined) return;
    const directory = layout.sharesOf(namespace, group);
    const paths = (await sweep.children(directory)).map((of) => `${directory}/${of}`);
    for (const path of [...paths, directory]) await quietly(zk.remove(path));
  }
}
