/**
 * What makes a repeated push no second message: a mark under a hash of the messageId, made in the transaction that makes the
 * message (protocol C26).
 *
 *   create(mark) refused, NODE_EXISTS   the messageId was seen: the message has the id that the mark tells; or the mark has run
 *                                       out, and is replaced at the version that was read
 *   create(mark) refused, NO_NODE       its directory is made
 *
 * One mark per messageId, not per span of time: at the border of two spans a message could come twice. So what has run out has to be
 * looked for; housekeeping does (`tidy-queues.ts`).
 */
import { createHash } from 'node:crypto';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { isReason, unless } from '../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { QueueGoneError } from './queue-gone.js';
import type { QueuePaths } from './queue-paths.js';

export interface Mark {
  /** Of the message. */
  id: string;
  /** Epoch ms on the ensemble's clock: until when the messageId counts. */
  until: number;
}

const HASH_DIGITS = 32;

export function markPath(paths: QueuePaths, messageId: string): string {
  return paths.dedupMark(createHash('sha256').update(messageId).digest('hex').slice(0, HASH_DIGITS));
}

export function makeMark(path: string, mark: Mark): MultiOperation {
  return { type: 'create', path, data: Buffer.from(JSON.stringify(mark)) };
}

export function decodeMark({ data }: NodeData): Mark {
  return JSON.parse(data.toString('utf8')) as Mark;
}

const READ_AT_ONCE = 400;

/** The ids of the messages that were pushed with these marks, where they count still; up to date. */
export async function readMarks(
  control: ControlSession,
  paths: readonly string[],
  now: number,
  deadline: number,
): Promise<(string | undefined)[]> {
  await control.sync(paths[0], deadline);
  const ids: (string | undefined)[] = [];
  for (let i = 0; i < paths.length; i += READ_AT_ONCE) {
    const { results, zxid } = await control.multiRead(
      paths.slice(i, i + READ_AT_ONCE).map((path) => ({ type: 'getData', path })),
      deadline,
    );
    for (const result of results) {
      const mark = 'data' in result ? decodeMark({ ...result, zxid }) : undefined;
      ids.push(mark !== undefined && mark.until > now ? mark.id : undefined);
    }
  }
  return ids;
}

/**
 * What to do about a mark that could not be made.
 * @returns the condition to try in its place, or the id of the message that was pushed with this messageId before
 */
export async function afterRefusal(
  control: ControlSession,
  path: string,
  mark: Mark,
  error: unknown,
  now: number,
  deadline: number,
): Promise<MultiOperation | string> {
  if (isReason(error, 'NO_NODE')) {
    // Of the mark itself, when it was to be replaced and has been removed, or of its directory. Nothing above that is made: it would be
    // the ghost of a deleted queue.
    try {
      await control.create(parentOf(path), undefined, {}, deadline);
    } catch (failure) {
      if (isReason(failure, 'NO_NODE')) throw new QueueGoneError();
      if (!isReason(failure, 'NODE_EXISTS')) throw failure;
    }
    return makeMark(path, mark);
  }
  if (!isReason(error, 'NODE_EXISTS', 'BAD_VERSION')) throw error;
  await control.sync(path, deadline);
  const node = await unless(control.getData(path, deadline), 'NO_NODE');
  if (node === undefined) return makeMark(path, mark);
  const known = decodeMark(node);
  if (known.until > now) return known.id;
  return { type: 'setData', path, data: Buffer.from(JSON.stringify(mark)), version: node.stat.version };
}
