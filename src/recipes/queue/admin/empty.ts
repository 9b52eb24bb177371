/**
 * Purges and redrives: removes all messages of a queue, or moves them elsewhere. Both go through the messages that were
 * there at the beginning (protocol T7: further pushes do not keep them busy forever), leave claimed messages alone, and
 * stop when their time is over; repeated, they continue with the rest.
 *
 * They do not wait for a turn. A consumer that wanted one of the messages at that moment finds it gone, and takes the
 * next.
 */
import type { Awaited, Bounded } from '../../../time.js';
import { isReason, orUnknown, unless } from '../../../zookeeper/errors.js';
import { OwnedTransaction } from '../../../zookeeper/owned-transaction.js';
import { moveTo, priorityOf, renewed } from '../ack/dead-letters.js';
import { newEntry, removalOf, type Entry } from '../claim/entry.js';
import type { Queue } from '../queue.js';
import { MESSAGES_AT_ONCE } from '../transactions.js';
import { isExpired, messageName, prioritiesIn } from '../paths.js';
import { readEntries } from '../claim/read-entries.js';
import { segmentsOf } from './view.js';

export interface Emptied {
  count: number;
  /** Claimed ones, which stayed. */
  claimed: number;
  /** False: the time was over before the end. */
  complete: boolean;
}

const MOVES_AT_ONCE = 64;
/** The answer must be on its way before the request's deadline. */
const MARGIN_MS = 1_000;

/** Deletes all messages that nobody has claimed; delayed ones too. */
export async function purge(queue: Queue, awaited: Awaited): Promise<Emptied> {
  const { deadline } = awaited;
  let count = 0;
  const purging = async (): Promise<Omit<Emptied, 'count'>> => {
    const result = await overAll(queue, deadline, async (entries) => {
      for (let i = 0; i < entries.length; i += MESSAGES_AT_ONCE)
        count += await deleteAll(queue, entries.slice(i, i + MESSAGES_AT_ONCE), awaited);
    });
    const all = await purgeDelayed(queue, () => (count += 1), awaited);
    return { ...result, complete: result.complete && all };
  };
  const result = await orUnknown(purging(), () => count > 0);
  queue.count('purge', count);
  return { ...result, count };
}

/**
 * Moves all messages that nobody has claimed to the end of another queue, in their order, their deliveries counted
 * anew; dead letters with the priority that they had.
 */
export async function redrive(queue: Queue, to: string, awaited: Awaited): Promise<Emptied> {
  const { deadline } = awaited;
  let count = 0;
  const moving = overAll(queue, deadline, async (all) => {
    const now = await queue.ensembleNow(deadline);
    // To move what has expired would bring it back to life.
    const entries = all.filter((entry) => !isExpired(entry, now));
    for (let i = 0; i < entries.length; i += MOVES_AT_ONCE) {
      await Promise.all(
        entries.slice(i, i + MOVES_AT_ONCE).map(async ({ message, claims, path, priority: here }) => {
          if (message === undefined) return;
          const priority = priorityOf(message, here);
          const moving = { data: renewed(message), removal: removalOf(path, claims), priority };
          if (await moveTo(queue, to, moving, awaited)) count += 1;
        }),
      );
    }
  });
  const result = await orUnknown(moving, () => count > 0);
  queue.count('redrive', count);
  return { ...result, count };
}

async function overAll(
  queue: Queue,
  deadline: number,
  handle: (entries: readonly Entry[]) => Promise<void>,
): Promise<Omit<Emptied, 'count'>> {
  const { control, paths } = queue;
  const zk = control.until(deadline);
  const result = { claimed: 0, complete: true };
  // By a quorum: where there seems to be nothing, nothing is written that would find out.
  const root = await zk.fresh(() => zk.children(paths.data));
  for (const priority of prioritiesIn(root)) {
    for await (const { number, path, messages } of segmentsOf(control, paths, priority, deadline)) {
      let unread = messages.map((message) =>
        newEntry({ priority, segment: number, ...message }, `${path}/${messageName(message)}`),
      );
      while (unread.length > 0) {
        if (performance.now() > deadline - MARGIN_MS) return { ...result, complete: false };
        await readEntries(queue, unread, () => (result.claimed += 1), deadline);
        await handle(unread.filter(({ state }) => state === 'ready'));
        unread = unread.filter(({ state }) => state === 'unread');
      }
    }
  }
  return result;
}

/** @returns how many there were to delete */
export async function deleteAll(
  { control }: Queue,
  entries: readonly Entry[],
  { deadline, requester }: Bounded,
): Promise<number> {
  const zk = (requester === undefined ? control : control.writingFor(requester)).until(deadline);
  let open = [...entries];
  while (open.length > 0) {
    const removal = new OwnedTransaction<Entry>();
    for (const entry of open) removal.add(entry, ...removalOf(entry.path, entry.claims));
    try {
      await zk.multi(removal.operations);
      return open.length;
    } catch (error) {
      const culprit = removal.culpritOf(error);
      if (culprit === undefined || !isReason(error, 'NO_NODE', 'NOT_EMPTY', 'BAD_VERSION')) throw error;
      open = open.filter((entry) => entry !== culprit);
    }
  }
  return 0;
}

/** @returns false: the time was over before the end */
async function purgeDelayed(queue: Queue, onDeleted: () => void, { deadline, requester }: Awaited): Promise<boolean> {
  const { paths } = queue;
  const zk = queue.control.writingFor(requester).until(deadline);
  for (const coarse of await zk.children(paths.delayed)) {
    for (const fine of await zk.children(`${paths.delayed}/${coarse}`)) {
      const directory = `${paths.delayed}/${coarse}/${fine}`;
      for (const name of await zk.children(directory)) {
        if (performance.now() > deadline - MARGIN_MS) return false;
        await unless(zk.remove(`${directory}/${name}`).then(onDeleted), 'NO_NODE');
      }
      await unless(zk.remove(directory), 'NO_NODE', 'NOT_EMPTY');
    }
  }
  return true;
}
