/**
 * What housekeeping does for queues. Only the size of the tree depends on it, how late a delayed message becomes
 * available in a queue without consumers, and for how long an expired one is counted.
 *
 * - Moves delayed messages that are due into their queues.
 * - Removes expired messages (`expired.ts`).
 * - Removes expired marks of messageIds, and the lanes of replicas that have not pushed for an hour.
 * - Removes what is left of deleted queues: contents that no name stands for. They must be seen twice, because a
 *   queue's name and contents are made in one transaction but read in two requests.
 *
 * A queue for which that fails holds up no other one.
 */
import { ensembleNow } from '../../../zookeeper/ensemble-time.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import { HOUR } from '../../../time.js';
import type { Coordination } from '../../coordination.js';
import type { Chore } from '../../housekeeping/housekeeping.js';
import type { Sweep } from '../../housekeeping/sweep.js';
import { unlessNewer } from '../../known-record.js';
import { decodeMark } from '../push/dedup.js';
import { listPlainly, moveDue } from '../claim/delayed.js';
import { removeExpired, type Sealed } from './expired.js';
import { QueueGoneError } from '../gone.js';
import type { Queue } from '../queue.js';
import type { Queues } from '../queues.js';

const AT_ONCE = 400;

/** What one round leaves to the next. */
interface Round {
  /** Contents without a name. */
  readonly nameless: Set<string>;
  /** By the id of the queue. */
  readonly sealed: Map<string, Sealed>;
}

export class TidyQueues implements Chore {
  readonly #context: Coordination;
  readonly #queues: Queues;
  #last: Round = { nameless: new Set(), sealed: new Map() };

  constructor(context: Coordination, queues: Queues) {
    this.#context = context;
    this.#queues = queues;
  }

  async sweep(sweep: Sweep): Promise<void> {
    const round: Round = { nameless: new Set(), sealed: new Map() };
    await sweep.eachNamespace((namespace) => this.#sweepNamespace(namespace, round, sweep));
    if (!sweep.stopped) this.#last = round;
  }

  async #sweepNamespace(namespace: string, { nameless, sealed }: Round, sweep: Sweep): Promise<void> {
    const { control, layout } = this.#context;
    const ids = new Set<string>();
    let areAllKnown = true;
    for (const name of await sweep.children(layout.queues(namespace))) {
      if (sweep.stopped) return;
      await sweep.apart(`queue "${name}" in namespace "${namespace}"`, async () => {
        const queue = await this.#queues.look(namespace, name, sweep.deadline()).catch((error: unknown) => {
          areAllKnown = false;
          return unlessNewer(error);
        });
        if (queue === undefined) return;
        ids.add(queue.id);
        await this.#tidy(queue, sealed, sweep);
      });
    }
    // One that a newer release has configured has contents, and here nobody knows which.
    if (!areAllKnown) return;
    for (const id of await sweep.children(layout.queueContents(namespace))) {
      if (ids.has(id)) continue;
      const path = layout.queueData(namespace, id);
      if (!this.#last.nameless.has(path)) nameless.add(path);
      else await sweep.apart(`the deleted queue ${path}`, () => control.removeRecursive(path, sweep.longDeadline()));
    }
  }

  async #tidy(queue: Queue, sealed: Round['sealed'], sweep: Sweep): Promise<void> {
    try {
      const deadline = sweep.deadline();
      await moveDue(queue, listPlainly(queue, deadline), deadline);
      sealed.set(queue.id, await removeExpired(queue, sweep, this.#last.sealed.get(queue.id)));
      await this.#removeMarks(queue, sweep);
      await this.#removePushers(queue, sweep);
    } catch (error) {
      // A dead-letter queue of a newer release takes nothing from here.
      if (!(error instanceof QueueGoneError) && !isReason(error, 'NO_NODE')) unlessNewer(error);
    }
  }

  async #removeMarks({ paths }: Queue, sweep: Sweep): Promise<void> {
    for (const bucket of await sweep.children(paths.dedup)) {
      const directory = `${paths.dedup}/${bucket}`;
      const marks = (await sweep.children(directory)).map((name) => `${directory}/${name}`);
      await sweep.batches(marks, AT_ONCE, (batch) => this.#removeOver(batch, sweep.deadline()));
    }
  }

  async #removeOver(marks: readonly string[], deadline: number): Promise<void> {
    const { control } = this.#context;
    const now = await ensembleNow(this.#context, deadline);
    const { results, zxid } = await control.multiRead(
      marks.map((path) => ({ type: 'getData', path })),
      deadline,
    );
    const over = results.flatMap((result, i) =>
      'data' in result && decodeMark({ ...result, zxid }).until <= now
        ? [control.delete(marks[i] as string, result.stat.version, deadline)]
        : [],
    );
    await Promise.all(over.map((deletion) => unless(deletion, 'NO_NODE', 'BAD_VERSION')));
  }

  async #removePushers({ paths }: Queue, sweep: Sweep): Promise<void> {
    const { control } = this.#context;
    const deadline = sweep.deadline();
    const now = await ensembleNow(this.#context, deadline);
    for (const name of await sweep.children(paths.pushers)) {
      const path = `${paths.pushers}/${name}`;
      const stat = await control.exists(path, deadline);
      if (stat !== undefined && now - stat.mtime > HOUR)
        await unless(control.delete(path, stat.version, deadline), 'NO_NODE', 'BAD_VERSION');
    }
  }
}
