/**
 * What housekeeping does for queues. Nothing depends on it but the size of the tree, and how late a message becomes available in a
 * queue that nobody asks.
 *
 * - Delayed messages that are due are moved into their queues.
 * - Marks of messageIds that have run out are removed, and with an hour's silence the marks of replicas that pushed.
 * - What is left of deleted queues is removed: contents that no name stands for, seen twice, because a queue's name and contents are
 *   made in one transaction but read in two.
 */
import { isReason, unless } from '../../zookeeper/errors.js';
import { HOUR, SECOND } from '../../time.js';
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping.js';
import { ensembleNow } from '../break-hold.js';
import { decodeMark } from './dedup.js';
import { listPlainly, moveDue } from './delayed.js';
import { QueueGoneError } from './queue-gone.js';
import type { Queue } from './queue.js';
import type { Queues } from './queues.js';

const REQUEST_MS = 10 * SECOND;
const AT_ONCE = 400;

export class TidyQueues implements Chore {
  readonly #context: Coordination;
  readonly #queues: Queues;
  /** Contents without a name, as of the last round. */
  #nameless = new Set<string>();

  constructor(context: Coordination, queues: Queues) {
    this.#context = context;
    this.#queues = queues;
  }

  async sweep(stopped: () => boolean): Promise<void> {
    const { layout } = this.#context;
    const nameless = new Set<string>();
    for (const namespace of await this.#children(layout.namespaces)) {
      const names = await this.#children(layout.queues(namespace));
      const ids = new Set<string>();
      for (const name of names) {
        if (stopped()) return;
        const queue = await this.#queues.look(namespace, name, performance.now() + REQUEST_MS);
        if (queue === undefined) continue;
        ids.add(queue.id);
        await this.#tidy(queue, stopped);
      }
      for (const id of await this.#children(layout.queueContents(namespace))) {
        if (ids.has(id)) continue;
        const path = layout.queueData(namespace, id);
        if (!this.#nameless.has(path)) nameless.add(path);
        else await this.#context.control.removeRecursive(path, performance.now() + 6 * REQUEST_MS);
      }
    }
    this.#nameless = nameless;
  }

  async #tidy(queue: Queue, stopped: () => boolean): Promise<void> {
    try {
      const deadline = performance.now() + REQUEST_MS;
      await moveDue(queue, listPlainly(queue, deadline), deadline);
      await this.#removeMarks(queue, stopped);
      await this.#removePushers(queue);
    } catch (error) {
      if (!(error instanceof QueueGoneError) && !isReason(error, 'NO_NODE')) throw error;
    }
  }

  async #removeMarks({ paths }: Queue, stopped: () => boolean): Promise<void> {
    const { control } = this.#context;
    for (const bucket of await this.#children(paths.dedup)) {
      const directory = `${paths.dedup}/${bucket}`;
      const names = await this.#children(directory);
      for (let i = 0; i < names.length && !stopped(); i += AT_ONCE) {
        const deadline = performance.now() + REQUEST_MS;
        const batch = names.slice(i, i + AT_ONCE).map((name) => `${directory}/${name}`);
        const now = await ensembleNow(this.#context, deadline);
        const { results, zxid } = await control.multiRead(
          batch.map((path) => ({ type: 'getData', path })),
          deadline,
        );
        const over = results.flatMap((result, j) =>
          'data' in result && decodeMark({ ...result, zxid }).until <= now
            ? [control.delete(batch[j] as string, result.stat.version, deadline)]
            : [],
        );
        await Promise.all(over.map((deletion) => unless(deletion, 'NO_NODE', 'BAD_VERSION')));
      }
    }
  }

  async #removePushers({ paths }: Queue): Promise<void> {
    const { control } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    const now = await ensembleNow(this.#context, deadline);
    for (const name of await this.#children(paths.pushers)) {
      const path = `${paths.pushers}/${name}`;
      const stat = await control.exists(path, deadline);
      if (stat !== undefined && now - stat.mtime > HOUR)
        await unless(control.delete(path, stat.version, deadline), 'NO_NODE', 'BAD_VERSION');
    }
  }

  async #children(path: string): Promise<string[]> {
    return (
      (await unless(this.#context.control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? []
    );
  }
}
