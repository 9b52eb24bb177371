/**
 * What an administrator does with all messages of a queue: remove them, or move them elsewhere. Both go through what was there when they
 * began (protocol T7: pushes that go on do not keep them busy for ever), leave claimed messages alone, and stop when their time
 * is over: asked again they go on with what is left.
 *
 * They do not wait for a turn. A consumer that wanted one of the messages at that moment finds it gone, and takes the next.
 */
import { isReason, orUnknown, unless, ZooKeeperError } from '../../zookeeper/errors.js';
import { removalOf, moveTo } from './dead-letters.js';
import { newEntry, type Entry } from './entry.js';
import { encodeMessage } from './message.js';
import type { Queue } from './queue.js';
import { prioritiesIn } from './queue-paths.js';
import { readEntries } from './read-entries.js';
import { messageName } from './queue-paths.js';
import { segmentsOf } from './view.js';

export interface Emptied {
  count: number;
  /** Claimed ones, which stayed. */
  claimed: number;
  /** False: the time was over before the end. */
  complete: boolean;
}

const DELETE_AT_ONCE = 200;
const MOVES_AT_ONCE = 64;
/** The answer must be on its way before the request's deadline. */
const MARGIN_MS = 1_000;

/** Deletes all messages that nobody has claimed; delayed ones too. */
export async function purge(queue: Queue, deadline: number): Promise<Emptied> {
  let count = 0;
  const purging = async (): Promise<Omit<Emptied, 'count'>> => {
    const result = await overAll(queue, deadline, async (entries) => {
      for (let i = 0; i < entries.length; i += DELETE_AT_ONCE)
        count += await deleteAll(queue, entries.slice(i, i + DELETE_AT_ONCE), deadline);
    });
    await purgeDelayed(queue, () => (count += 1), deadline);
    return result;
  };
  const result = await orUnknown(purging(), () => count > 0);
  queue.count('purge', count);
  return { ...result, count };
}

/** Moves all messages that nobody has claimed to the end of another queue, in their order, their deliveries counted anew. */
export async function redrive(queue: Queue, to: string, deadline: number): Promise<Emptied> {
  let count = 0;
  const moving = overAll(queue, deadline, async (entries) => {
    for (let i = 0; i < entries.length; i += MOVES_AT_ONCE) {
      await Promise.all(
        entries.slice(i, i + MOVES_AT_ONCE).map(async ({ message, enqueuedAt, claims, path, priority }) => {
          if (message === undefined) return;
          const header = { ...message.header, e: enqueuedAt, n: undefined, x: undefined };
          const data = encodeMessage({ header, body: message.body });
          if (await moveTo(queue, to, { data, removal: removalOf(path, claims), priority }, deadline)) count += 1;
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
  const result = { claimed: 0, complete: true };
  await control.sync(paths.data, deadline);
  const root = await unless(control.getChildren(paths.data, deadline), 'NO_NODE');
  for (const priority of prioritiesIn(root?.children ?? [])) {
    for await (const { number, path, sequences } of segmentsOf(control, paths, priority, deadline)) {
      let unread = sequences.map((sequence) =>
        newEntry({ priority, segment: number, sequence }, `${path}/${messageName(sequence)}`),
      );
      while (unread.length > 0) {
        if (performance.now() > deadline - MARGIN_MS) return { ...result, complete: false };
        await readEntries(control, unread, () => (result.claimed += 1), deadline);
        await handle(unread.filter(({ state }) => state === 'ready'));
        unread = unread.filter(({ state }) => state === 'unread');
      }
    }
  }
  return result;
}

/** @returns how many there were to delete */
async function deleteAll(queue: Queue, entries: readonly Entry[], deadline: number): Promise<number> {
  let open = [...entries];
  while (open.length > 0) {
    const owners = open.flatMap((entry) => removalOf(entry.path, entry.claims).map(() => entry));
    try {
      await queue.control.multi(
        open.flatMap(({ path, claims }) => removalOf(path, claims)),
        deadline,
      );
      return open.length;
    } catch (error) {
      if (!(error instanceof ZooKeeperError) || error.failedIndex === undefined) throw error;
      if (!isReason(error, 'NO_NODE', 'NOT_EMPTY', 'BAD_VERSION')) throw error;
      const culprit = owners[error.failedIndex];
      open = open.filter((entry) => entry !== culprit);
    }
  }
  return 0;
}

async function purgeDelayed(queue: Queue, onDeleted: () => void, deadline: number): Promise<void> {
  const { control, paths } = queue;
  const children = async (path: string): Promise<string[]> =>
    (await unless(control.getChildren(path, deadline), 'NO_NODE'))?.children ?? [];
  for (const coarse of await children(paths.delayed)) {
    for (const fine of await children(`${paths.delayed}/${coarse}`)) {
      const directory = `${paths.delayed}/${coarse}/${fine}`;
      for (const name of await children(directory)) {
        if (performance.now() > deadline - MARGIN_MS) return;
        await unless(control.delete(`${directory}/${name}`, undefined, deadline).then(onDeleted), 'NO_NODE');
      }
      await unless(control.delete(directory, undefined, deadline), 'NO_NODE', 'NOT_EMPTY');
    }
  }
}
