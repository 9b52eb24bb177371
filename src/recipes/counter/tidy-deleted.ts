/**
 * Removes the tombstones of deleted counters, after as long as those of deleted keys: no request sent at a version of
 * the old counter is in flight by then. Each removal checks the version that was read, so a counter that is in use
 * again stays.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { unless } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { Tombstones } from '../housekeeping/tombstones.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { ifKnown } from '../known-record.js';
import { stateOf } from './counter.js';

const AT_ONCE = 400;

export class TidyDeletedCounters implements Chore {
  readonly #context: Coordination;
  readonly #tombstones: Tombstones;

  constructor(context: Coordination, tombstoneMs?: number) {
    this.#context = context;
    this.#tombstones = new Tombstones(context, tombstoneMs);
  }

  sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    return this.#tombstones.sweep(sweep, async (namespace) => {
      const names = await sweep.children(layout.counters(namespace));
      const paths = names.map((name) => layout.counter(namespace, name));
      await sweep.batches(paths, AT_ONCE, (batch) => this.#tidy(sweep.zk(), batch));
    });
  }

  async #tidy(zk: BoundClient, paths: readonly string[]): Promise<void> {
    const nodes = await readNodes(zk, paths);
    const removals = nodes.map(async (node, i) => {
      if (
        node === undefined ||
        !this.#tombstones.isOver(node.stat) ||
        ifKnown(() => stateOf('', node))?.exists !== false
      )
        return;
      await unless(zk.remove(paths[i] as string, node.stat.version), 'NO_NODE', 'BAD_VERSION');
    });
    await Promise.all(removals);
  }
}
