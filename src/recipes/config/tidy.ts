/**
 * What deleted keys leave behind: their tombstones, which are removed when they are old enough that nobody may still have an ETag of theirs to
 * be compared with, and then the directories in which nothing is left.
 *
 * Each removal checks the version that was read: a key that is put again meanwhile stays. A tombstone with keys below it becomes a directory,
 * and its version goes on.
 *
 * The whole tree is read, so it is done less often than there are turns.
 */
import { HOUR } from '../../time.js';
import { isReason, unless, ZooKeeperError } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping.js';
import { decodeNode } from './entry.js';

/** How long a deleted key keeps its version (C31). */
export const TOMBSTONE_MS = 24 * HOUR;

/** Between two rounds, as a part of the age at which a tombstone is removed. */
const ROUNDS_PER_AGE = 24;
const AT_ONCE = 32;
const REQUEST_MS = 10_000;

export class TidyConfig implements Chore {
  readonly #context: Coordination;
  readonly #tombstoneMs: number;
  #doneAt = -Infinity;

  constructor(context: Coordination, tombstoneMs = TOMBSTONE_MS) {
    this.#context = context;
    this.#tombstoneMs = tombstoneMs;
  }

  async sweep(stopped: () => boolean): Promise<void> {
    const { layout, zooKeeperClock } = this.#context;
    const startedAt = performance.now();
    if (!zooKeeperClock.known || startedAt - this.#doneAt < this.#tombstoneMs / ROUNDS_PER_AGE) return;
    for (const namespace of (await this.#children(layout.namespaces)) ?? [])
      await this.#tidyBelow(layout.config(namespace), stopped);
    if (!stopped()) this.#doneAt = startedAt;
  }

  /** @returns whether something is left below */
  async #tidyBelow(path: string, stopped: () => boolean): Promise<boolean> {
    const names = (await this.#children(path)) ?? [];
    let left = false;
    for (let i = 0; i < names.length; i += AT_ONCE) {
      if (stopped()) return true;
      const batch = names.slice(i, i + AT_ONCE);
      const stays = await Promise.all(batch.map((name) => this.#tidy(`${path}/${name}`, stopped)));
      left ||= stays.includes(true);
    }
    return left;
  }

  /** @returns whether the znode is still there */
  async #tidy(path: string, stopped: () => boolean): Promise<boolean> {
    const { control, zooKeeperClock } = this.#context;
    const node = await unless(control.getData(path, this.#deadline()), 'NO_NODE');
    if (node === undefined) return false;
    const left = node.stat.numChildren > 0 && (await this.#tidyBelow(path, stopped));
    const { value, tombstone, version } = decodeNode(node);
    // What others have put here is neither, and stays.
    const directory = value === undefined && !tombstone && node.data.length === 0;
    const old = tombstone && zooKeeperClock.now() - node.stat.mtime >= this.#tombstoneMs;
    if (stopped() || !(directory || old) || (directory && left)) return true;
    try {
      if (!left) await control.delete(path, version, this.#deadline());
      else await control.setData(path, Buffer.alloc(0), version, this.#deadline());
      return left;
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error;
      return !isReason(error, 'NO_NODE'); // else somebody wrote it, or a key below it
    }
  }

  async #children(path: string): Promise<string[] | undefined> {
    return (await unless(this.#context.control.getChildren(path, this.#deadline()), 'NO_NODE'))?.children;
  }

  #deadline(): number {
    return performance.now() + REQUEST_MS;
  }
}
