/**
 * What deleted keys leave behind: their tombstones, which are removed when they are old enough that nobody may still
 * have an ETag of theirs to be compared with, and then the directories in which nothing is left.
 *
 * Each removal checks the version that was read: a key that is put again meanwhile stays. A tombstone with keys below
 * it becomes a directory, and its version goes on.
 */
import { isReason, unless, ZooKeeperError } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { Tombstones } from '../housekeeping/tombstones.js';
import { ifKnown } from '../known-record.js';
import { decodeNode } from './entry.js';

const AT_ONCE = 32;

export class TidyConfig implements Chore {
  readonly #context: Coordination;
  readonly #tombstones: Tombstones;

  constructor(context: Coordination, tombstoneMs?: number) {
    this.#context = context;
    this.#tombstones = new Tombstones(context, tombstoneMs);
  }

  sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    return this.#tombstones.sweep(sweep, (namespace) => this.#tidyBelow(layout.config(namespace), sweep));
  }

  /** @returns whether something is left below */
  async #tidyBelow(path: string, sweep: Sweep): Promise<boolean> {
    let left = false;
    await sweep.batches(await sweep.children(path), AT_ONCE, async (names) => {
      const stays = await Promise.all(names.map((name) => this.#tidy(`${path}/${name}`, sweep)));
      left ||= stays.includes(true);
    });
    return left || sweep.stopped;
  }

  /** @returns whether the znode is still there */
  async #tidy(path: string, sweep: Sweep): Promise<boolean> {
    const { control } = this.#context;
    const node = await unless(control.getData(path, sweep.deadline()), 'NO_NODE');
    if (node === undefined) return false;
    const left = node.stat.numChildren > 0 && (await this.#tidyBelow(path, sweep));
    // What others have put here, or a newer release, is neither, and stays.
    const directory = node.data.length === 0;
    const old = ifKnown(() => decodeNode(node))?.tombstone === true && this.#tombstones.isOver(node.stat);
    const { version } = node.stat;
    if (sweep.stopped || !(directory || old) || (directory && left)) return true;
    try {
      if (!left) await control.delete(path, version, sweep.deadline());
      else await control.setData(path, Buffer.alloc(0), version, sweep.deadline());
      return left;
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error;
      return !isReason(error, 'NO_NODE'); // else somebody wrote it, or a key below it
    }
  }
}
