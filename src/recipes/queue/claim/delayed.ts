/**
 * Messages that are not due yet. They wait apart from the queue, in directories by due time. One transaction deletes a
 * due message there and pushes it to the end of the queue, so no crash loses or duplicates it.
 *
 * Who moves: every replica with waiting consumers. The one that has the turn moves a message when it is due, the others
 * a moment later, in case that one has died; housekeeping serves queues without consumers (`admin/tidy.ts`). Whoever
 * comes second finds the message gone.
 *
 * How a replica learns of a message that is due earlier than those it knows: by three watches, on the list of
 * directories, on the first directory, and on the first second in it. Any earlier message appears in one of these.
 *
 * A directory may be left behind empty: its last message was removed by its id, who moved that died, or a push that had
 * made room was given up. Whoever comes by removes it, a whole run of them at once. A push for which one is missing
 * makes it anew (`push/lane.ts`).
 */
import { isReason, isTransient, unless } from '../../../zookeeper/errors.js';
import { baseName, parentOf } from '../../../zookeeper/paths.js';
import type { ReadNode } from '../../../zookeeper/read-nodes.js';
import type { Watch } from '../../../zookeeper/watch.js';
import { decodeMessage, encodeMessage } from '../message.js';
import type { Queue } from '../queue.js';
import { coarseEndOf, dueAtOf, groupHash, PRIORITY_DEFAULT, secondEndOf } from '../paths.js';
import { QueueGoneError } from '../gone.js';

/**
 * How much later than due those move a message who do not have the turn. If that one is dead, its turn is taken over
 * after this: together well below half a second.
 */
const SECOND_ROW_MS = 75;
/** Timers do not reach further. */
const TIMER_MAX_MS = 60_000;
const RETRY_MS = 200;
const REQUEST_MS = 10_000;
const MOVES_AT_ONCE = 100;
/** Directories whose Stats are read in one request, and of which those that are empty are removed together. */
const STATS_AT_ONCE = 400;
/** An empty directory for later is kept so long: somebody may just have made it for a message. */
const EMPTY_KEPT_MS = 60_000;
const MESSAGE = /^\d{13}-[-\d]\d{9}$/;

type Listen = (path: string) => Promise<string[] | undefined>;

/** Directories of delayed messages that are there at once, in order. */
interface Run {
  directories: readonly string[];
  /** By its name until when messages are due in one. */
  endOf: (name: string) => number;
}

/**
 * The messages that are due first, in order.
 * @param children lists a directory; undefined when it is not there
 * @param skipped paths of nodes that turned out to be none of ours
 */
async function firstDue(
  queue: Queue,
  children: Listen,
  skipped: ReadonlySet<string>,
  deadline: number,
): Promise<{ directory: string; names: string[] } | undefined> {
  const { delayed } = queue.paths;
  const coarse = await children(delayed);
  if (coarse === undefined) throw new QueueGoneError();
  for await (const span of listedOf(queue, runOf(delayed, coarse, coarseEndOf), children, deadline)) {
    const seconds = runOf(span.directory, span.names, secondEndOf);
    for await (const { directory, names } of listedOf(queue, seconds, children, deadline)) {
      const ours = names.filter((message) => MESSAGE.test(message) && !skipped.has(`${directory}/${message}`)).sort();
      if (ours.length > 0) return { directory, names: ours };
    }
  }
  return undefined;
}

function runOf(parent: string, names: readonly string[], endOf: Run['endOf']): Run {
  const inOrder = [...names].sort((a, b) => Number(a) - Number(b));
  return { directories: inOrder.map((name) => `${parent}/${name}`), endOf };
}

/**
 * Those that are not empty, each listed when it is its turn. The others are listed too, and so watched, unless they
 * were removed: with the first one that is empty go those of the next ones that are.
 */
async function* listedOf(
  queue: Queue,
  { directories, endOf }: Run,
  children: Listen,
  deadline: number,
): AsyncGenerator<{ directory: string; names: string[] }> {
  const removed = new Set<string>();
  let readUpTo = 0;
  for (const [i, directory] of directories.entries()) {
    if (removed.has(directory)) continue;
    const names = await children(directory);
    if (names === undefined) continue;
    if (names.length > 0) yield { directory, names };
    else if (i >= readUpTo) {
      readUpTo = i + STATS_AT_ONCE;
      const next = { directories: directories.slice(i, readUpTo), endOf };
      for (const path of await removeEmpty(queue, next, deadline)) removed.add(path);
    }
  }
}

/**
 * Removes those that are empty and that nobody needs: whose time has passed, or that have been there for a while.
 * @returns those
 */
async function removeEmpty(queue: Queue, { directories, endOf }: Run, deadline: number): Promise<string[]> {
  const { control } = queue;
  const { results } = await control.multiRead(
    directories.map((path) => ({ type: 'getData', path })),
    deadline,
  );
  const now = await queue.ensembleNow(deadline);
  const empty = directories.filter((path, i) => {
    const result = results[i];
    if (result === undefined || !('stat' in result) || result.stat.numChildren > 0) return false;
    const end = endOf(baseName(path));
    return !Number.isNaN(end) && (end <= now || result.stat.ctime + EMPTY_KEPT_MS <= now);
  });
  const removals = empty.map((path) => control.delete(path, undefined, deadline).then(() => path));
  const removed = await Promise.all(removals.map((removal) => unless(removal, 'NO_NODE', 'NOT_EMPTY')));
  return removed.filter((path) => path !== undefined);
}

/**
 * Moves what is due into the queue.
 * @returns when the next one is due (epoch ms on the ensemble's clock); undefined when none waits
 * @throws QueueGoneError
 */
export async function moveDue(queue: Queue, children: Listen, deadline: number): Promise<number | undefined> {
  const skipped = new Set<string>();
  for (;;) {
    const first = await firstDue(queue, children, skipped, deadline);
    if (first === undefined) return undefined;
    const now = await queue.ensembleNow(deadline);
    const due = first.names.filter((name) => dueAtOf(name) <= now);
    if (due.length === 0) return dueAtOf(first.names[0] as string);
    for (let i = 0; i < due.length;) {
      const batch = due.slice(i, i + MOVES_AT_ONCE).map((name) => `${first.directory}/${name}`);
      const results = await queue.queues.messages.read(queue, batch, deadline);
      i += results.length;
      await Promise.all(
        results.flatMap((result, j) =>
          'data' in result ? [moveOne(queue, batch[j] as string, result, skipped, deadline)] : [],
        ),
      );
    }
    // Nobody puts anything into a second that has passed, but by a clock that differs: then it fails, or makes it anew.
    if (due.length < first.names.length) continue;
    for (const directory of [first.directory, parentOf(first.directory)])
      await unless(queue.control.delete(directory, undefined, deadline), 'NO_NODE', 'NOT_EMPTY');
  }
}

async function moveOne(
  queue: Queue,
  path: string,
  { data, stat }: ReadNode,
  skipped: Set<string>,
  deadline: number,
): Promise<void> {
  const message = decodeMessage(data);
  if (message === undefined) {
    skipped.add(path);
    return;
  }
  const { header, body } = message;
  await queue.lane.push({
    arrivals: [
      {
        data: encodeMessage({ header: { ...header, e: header.e ?? stat.ctime, p: undefined, u: undefined }, body }),
        priority: header.p ?? PRIORITY_DEFAULT,
        expiresAt: header.u,
        group: header.g === undefined ? undefined : groupHash(header.g),
        conditions: [{ type: 'delete', path }],
      },
    ],
    deadline,
    refused: (_index, _operation, error) => {
      if (!isReason(error, 'NO_NODE')) throw error;
      return Promise.resolve([]); // somebody else has moved it
    },
  });
}

/** Lists without watching. */
export function listPlainly(queue: Queue, deadline: number): Listen {
  return async (path) => (await unless(queue.control.getChildren(path, deadline), 'NO_NODE'))?.children;
}

/** Moves what is due while somebody waits for messages at this replica. */
export class DelayedMover {
  readonly #queue: Queue;
  readonly #isFirstRow: () => boolean;
  #watches: Watch[] = [];
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #looking: Promise<void> | undefined;
  #again = false;
  /** When the next message is due, epoch ms on the ensemble's clock. */
  #next = Infinity;

  /** @param isFirstRow whether this replica is the one to move a message the moment that it is due */
  constructor(queue: Queue, isFirstRow: () => boolean) {
    this.#queue = queue;
    this.#isFirstRow = isFirstRow;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#wake();
  }

  /** Resolves when what was due when this was called is moved, if it can be. */
  async looked(): Promise<void> {
    // The timer of who does not have the turn comes a little later.
    if (this.#started && this.#next <= this.#queue.context.zooKeeperClock.now()) this.#wake();
    await this.#looking?.catch(() => undefined);
  }

  stop(): void {
    this.#started = false;
    clearTimeout(this.#timer);
    this.#cancelWatches();
  }

  #wake(): void {
    if (this.#looking !== undefined) this.#again = true;
    else this.#looking = this.#look();
  }

  async #look(): Promise<void> {
    clearTimeout(this.#timer);
    try {
      do {
        this.#again = false;
        this.#cancelWatches();
        const deadline = performance.now() + REQUEST_MS;
        const next = await moveDue(this.#queue, (path) => this.#listen(path, deadline), deadline);
        this.#next = next ?? Infinity;
        if (next !== undefined) this.#schedule(next - this.#queue.context.zooKeeperClock.now());
      } while (this.#again && this.#started);
    } catch (error) {
      if (error instanceof QueueGoneError) this.#started = false;
      else this.#schedule(RETRY_MS);
      if (!(error instanceof QueueGoneError) && !isTransient(error)) throw error;
    } finally {
      // Here and not behind it: who starts anew in between would wait for a look that is over.
      this.#looking = undefined;
      if (!this.#started) this.stop();
    }
  }

  #schedule(inMs: number): void {
    clearTimeout(this.#timer);
    const ms = Math.max(0, inMs) + (this.#isFirstRow() ? 0 : SECOND_ROW_MS);
    this.#timer = setTimeout(() => this.#wake(), Math.min(TIMER_MAX_MS, Math.ceil(ms))).unref();
  }

  async #listen(path: string, deadline: number): Promise<string[] | undefined> {
    const { value, watch } = await this.#queue.control.watches.getChildren(
      path,
      () => {
        if (this.#started) this.#wake();
      },
      deadline,
    );
    if (watch !== undefined) this.#watches.push(watch);
    return value?.children;
  }

  #cancelWatches(): void {
    for (const watch of this.#watches) watch.cancel();
    this.#watches = [];
  }
}
