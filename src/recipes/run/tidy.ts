/**
 * Removes runs that have not changed for as long as they are remembered, unless an attempt still runs. Of all others
 * only the Stats are read, and 24 times per that time. The removal checks the version that was read, so a run that is
 * started meanwhile stays; and no write at a version of the old node is in flight by then, which could be done to a new
 * one of that name (C31).
 */
import { unless } from '../../zookeeper/errors.js';
import { askTime } from '../../zookeeper/ensemble-time.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { unlessNewer } from '../known-record.js';
import { readRunsNode } from './read.js';
import type { RunRef } from './run.js';

const SWEEPS_PER_HISTORY = 24;

export class TidyRuns implements Chore {
  readonly #context: Coordination;
  readonly #historyMs: number;
  #dueAt = 0;

  /** @param historyMs how long a run is remembered after its last change */
  constructor(context: Coordination, historyMs: number) {
    this.#context = context;
    this.#historyMs = historyMs;
  }

  async sweep(sweep: Sweep): Promise<void> {
    if (performance.now() < this.#dueAt) return;
    const { layout } = this.#context;
    let before: number | undefined;
    await sweep.eachNamespace(async (namespace) => {
      const directory = layout.runs(namespace);
      const names = await sweep.children(directory);
      if (names.length === 0) return;
      before ??= (await askTime(this.#context, sweep.deadline())).mtime - this.#historyMs;
      const oldest = before;
      await sweep.each(names, (name) =>
        this.#removeIfOld({ namespace, name, path: `${directory}/${name}` }, oldest, sweep),
      );
    });
    if (!sweep.stopped) this.#dueAt = performance.now() + this.#historyMs / SWEEPS_PER_HISTORY;
  }

  async #removeIfOld(ref: RunRef, before: number, sweep: Sweep): Promise<void> {
    const zk = sweep.zk();
    const stat = await zk.exists(ref.path);
    if (stat === undefined || stat.mtime > before) return;
    const found = await zk.fresh(() => readRunsNode(zk, this.#context.layout, ref)).catch(unlessNewer);
    if (found === undefined) return;
    const { node, living } = found;
    if (node === undefined || node.stat.mtime > before || living.size > 0) return;
    await unless(zk.remove(ref.path, node.stat.version), 'NO_NODE', 'BAD_VERSION', 'NOT_EMPTY');
  }
}
