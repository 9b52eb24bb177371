/**
 * Housekeeping of pools: finds members that were lost and that nobody wants, so that their rests begin; removes what is
 * remembered of members that a pool no longer has, and what is left of pools that were deleted.
 *
 * A pool is made in one transaction with its directories: an id that is listed, and that no pool has which is read
 * after that, is no pool's any more, and never will be.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { readOfMany, type ReadNode } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import { quietly, type Sweep } from '../housekeeping/sweep.js';
import { unlessNewer } from '../known-record.js';
import { DEFINITION_BYTES_MAX, membersOf, parsePool, type Pool } from './pool.js';
import { restsOf } from './rest.js';
import { usageOf } from './state.js';

const DELETIONS_AT_ONCE = 256;

interface KnownPools {
  pools: Map<string, { path: string; pool: Pool }>;
  areAllKnown: boolean;
}

export class TidyPools implements Chore {
  readonly #context: Coordination;

  constructor(context: Coordination) {
    this.#context = context;
  }

  sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    return sweep.eachNamespace(async (namespace) => {
      const ids = await sweep.children(layout.allPoolMarks(namespace));
      if (ids.length === 0) return;
      const { pools, areAllKnown } = await this.#read(sweep, namespace);
      for (const id of ids) {
        if (sweep.stopped) return;
        const known = pools.get(id);
        if (known !== undefined) await this.#tidy(sweep, namespace, known);
        else if (areAllKnown) await this.#removeContents(sweep, namespace, id);
      }
    });
  }

  /**
   * All pools of a namespace, by their ids; and whether there are no others: what a newer release has written has
   * contents, and here nobody knows which.
   */
  async #read(sweep: Sweep, namespace: string): Promise<KnownPools> {
    const { layout, control } = this.#context;
    const zk = sweep.zk();
    await zk.sync(layout.pools(namespace));
    const pools: KnownPools['pools'] = new Map();
    let areAllKnown = true;
    for (const name of await zk.children(layout.pools(namespace))) {
      const path = layout.pool(namespace, name);
      const parse = (node: ReadNode): Pool | undefined => parsePool(name, node);
      const reading = readOfMany(sweep.zk(), control.largeReads, [path], parse, DEFINITION_BYTES_MAX);
      const [pool] =
        (await reading.catch((error: unknown) => {
          areAllKnown = false;
          return unlessNewer(error);
        })) ?? [];
      if (pool !== undefined) pools.set(pool.id, { path, pool });
    }
    return { pools, areAllKnown };
  }

  async #tidy(sweep: Sweep, namespace: string, { path, pool }: { path: string; pool: Pool }): Promise<void> {
    const { layout } = this.#context;
    const directory = layout.poolMarks(namespace, pool.id);
    const zk = sweep.zk();
    const [marks, held] = await Promise.all([
      zk.children(directory),
      zk.children(layout.poolHolds(namespace, pool.id)),
    ]);
    const usage = usageOf(marks, held);
    const unheld = [...usage.marks.values()].filter(({ member }) => !usage.held.has(member));
    const lost = unheld.filter(({ token }) => token !== undefined);
    const { quarantineMs } = pool;
    const rests = await restsOf(this.#context, sweep.zk(), { marks: lost, directory, quarantineMs });
    const ids = new Set(membersOf(pool).map(({ id }) => id));
    const removed = unheld.filter(({ member, name }) => !ids.has(member) && !rests.has(name));
    // At the version that was read: nobody is given a member that it does not have.
    await sweep.each(removed, ({ name }) =>
      quietly(
        sweep.zk().multi([
          { type: 'check', path, version: pool.version },
          { type: 'delete', path: `${directory}/${name}` },
        ]),
      ),
    );
  }

  /** Holds there are none: a pool is deleted with its directory of them. */
  async #removeContents(sweep: Sweep, namespace: string, id: string): Promise<void> {
    const directory = this.#context.layout.poolMarks(namespace, id);
    await sweep.batches(await sweep.children(directory), DELETIONS_AT_ONCE, (batch) =>
      quietly(removeAll(sweep.zk(), directory, batch)),
    );
    await quietly(sweep.zk().remove(directory));
  }
}

async function removeAll(zk: BoundClient, directory: string, names: readonly string[]): Promise<void> {
  await zk.multi(names.map((name) => ({ type: 'delete', path: `${directory}/${name}` })));
}
