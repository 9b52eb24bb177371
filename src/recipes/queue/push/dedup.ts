/**
 * Keeps a repeated push from making a second message: a mark, created in the transaction that creates the message
 * (protocol C26). It lies under a hash of what identifies the message:
 *
 *   its messageId       whoever pushes it: the public name of the message
 *   its request         the Idempotency-Key with the principal, and the place of the message in the request; the mark
 *                       has a fingerprint of the request, and another request of the same key is refused
 *
 *   create(mark) refused, NODE_EXISTS   it was seen: the message has the id that the mark tells; or the mark has run
 *                                       out, and is replaced at the version that was read
 *   create(mark) refused, NO_NODE       its directory is made
 *
 * A transaction is refused by the first of its marks that could not be created, and the others mostly share its fate:
 * for a repeated push all marks exist, for the first push into a new queue no directory does. So after a refusal all
 * marks of the push are checked at once. One by one would cost a transaction as large as the push for each message.
 *
 * One mark per message, not per span of time: at the border of two spans a message could come twice. So housekeeping
 * looks for expired marks (`admin/tidy.ts`).
 */
import { createHash } from 'node:crypto';
import type { ControlSession } from '../../../zookeeper/control-session.js';
import { isReason, unless } from '../../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../../zookeeper/operations.js';
import { parentOf } from '../../../zookeeper/paths.js';
import { checkSame } from '../../marks.js';
import { QueueGoneError } from '../gone.js';
import type { QueuePaths } from '../paths.js';

export interface Mark {
  /** Of the message. */
  id: string;
  /** Epoch ms on the ensemble's clock: until when it counts. */
  until: number;
  /** Of the request that it was pushed with, where that is what it is known by. */
  fingerprint?: string | undefined;
}

/** Where the mark of a message is made. */
export interface Marked {
  path: string;
  mark: Mark;
}

const HASH_DIGITS = 32;

export function markPath(paths: QueuePaths, knownBy: string): string {
  return paths.dedupMark(createHash('sha256').update(knownBy).digest('hex').slice(0, HASH_DIGITS));
}

export function makeMark(path: string, mark: Mark): MultiOperation {
  return { type: 'create', path, data: encodeMark(mark) };
}

function encodeMark(mark: Mark): Buffer {
  return Buffer.from(JSON.stringify(mark));
}

export function decodeMark({ data }: NodeData): Mark {
  return JSON.parse(data.toString('utf8')) as Mark;
}

const READ_AT_ONCE = 400;

/** An earlier mark: of which message, while it counts, else the version at which it can be replaced. */
export type Earlier = { id: string } | { version: number };

/**
 * What there is of these marks; up to date.
 * @returns one per mark, undefined where there is none
 * @throws PosternError `invalid` when one was pushed with another request
 */
export async function readMarks(
  control: ControlSession,
  marked: readonly Marked[],
  now: number,
  deadline: number,
): Promise<(Earlier | undefined)[]> {
  await control.sync(marked[0]?.path, deadline);
  const batches = Array.from({ length: Math.ceil(marked.length / READ_AT_ONCE) }, async (_, i) => {
    const some = marked.slice(i * READ_AT_ONCE, (i + 1) * READ_AT_ONCE);
    const { results, zxid } = await control.multiRead(
      some.map(({ path }) => ({ type: 'getData', path })),
      deadline,
    );
    return results.map((result, j) =>
      'data' in result ? earlierOf({ ...result, zxid }, (some[j] as Marked).mark, now) : undefined,
    );
  });
  return (await Promise.all(batches)).flat();
}

/** @throws PosternError `invalid` when it counts, and is of another request */
function earlierOf(node: NodeData, mark: Mark, now: number): Earlier {
  const earlier = decodeMark(node);
  if (earlier.until <= now) return { version: node.stat.version };
  checkSame(earlier, mark);
  return { id: earlier.id };
}

/**
 * What to do about the marks of a push when one of them could not be made.
 * @returns for each the condition to try now, or the id of the message that it is a repetition of
 * @throws QueueGoneError
 * @throws PosternError `invalid` when one is known by what another request was pushed with
 */
export async function afterRefusal(
  control: ControlSession,
  marked: readonly Marked[],
  error: unknown,
  now: number,
  deadline: number,
): Promise<(MultiOperation | string)[]> {
  // NO_NODE: of the mark itself, when it was to be replaced and has been removed, or of its directory.
  if (!isReason(error, 'NO_NODE', 'NODE_EXISTS', 'BAD_VERSION')) throw error;
  const found = await readMarks(control, marked, now, deadline);
  const absent = marked.filter((_, i) => found[i] === undefined);
  await makeDirectories(control, new Set(absent.map(({ path }) => parentOf(path))), deadline);
  return marked.map(({ path, mark }, i) => {
    const earlier = found[i];
    if (earlier === undefined) return makeMark(path, mark);
    if ('id' in earlier) return earlier.id;
    return { type: 'setData', path, data: encodeMark(mark), version: earlier.version };
  });
}

/**
 * Those that are not there yet, all at once. Nothing above them is made: it would be the ghost of a deleted queue.
 * @param wanted of one queue
 * @throws QueueGoneError
 */
async function makeDirectories(control: ControlSession, wanted: ReadonlySet<string>, deadline: number): Promise<void> {
  const [some] = wanted;
  if (some === undefined) return;
  for (;;) {
    const all = parentOf(some);
    const listing = await unless(control.getChildren(all, deadline), 'NO_NODE');
    if (listing === undefined) throw new QueueGoneError();
    const there = new Set(listing.children.map((name) => `${all}/${name}`));
    const missing = [...wanted].filter((path) => !there.has(path));
    if (missing.length === 0) return;
    try {
      await control.multi(
        missing.map((path) => ({ type: 'create', path })),
        deadline,
      );
      return;
    } catch (error) {
      if (isReason(error, 'NO_NODE')) throw new QueueGoneError();
      // Others are at it too. They are never removed while there is a queue, so this comes to an end.
      if (!isReason(error, 'NODE_EXISTS')) throw error;
      await control.sync(all, deadline);
    }
  }
}
