/**
 * Reads the messages behind a cursor: the log, and then exactly those messages.
 *
 * A cursor is the number of the last message that its reader has seen. While there is no log, it is the zxid of the
 * state that has none: the numbers of a log that is made later begin above it. A log is removed in a transaction that
 * writes the directory of all logs; so a cursor from before the log's beginning has missed nothing that is gone if that
 * directory was last written before (C62).
 */
import { InvalidError } from '../../../errors.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { isReason } from '../../../zookeeper/errors.js';
import { parentOf } from '../../../zookeeper/paths.js';
import { readNodes } from '../../../zookeeper/read-nodes.js';
import type { Coordination } from '../../coordination.js';
import { decodeLog, decodeMessage, messagePath, type Log, type LogRef, type Message } from './log.js';

export interface MessagePage {
  /** In their order. */
  readonly messages: readonly Message[];
  /** Where to go on. */
  readonly cursor: number;
  /** Whether messages behind the reader's cursor were dropped, or may have been, before it read them. */
  readonly missed: boolean;
}

export interface ReadMessages {
  /** The reader's cursor; undefined: it begins now. */
  readonly after: number | undefined;
  /** At most so many messages. */
  readonly limit: number;
  /** Whether to read behind a quorum; otherwise it is as new as what was read on this connection before. */
  readonly fresh: boolean;
}

/** The largest body, with what is said beside it. */
const MESSAGE_BYTES = 5 * 1024;
/** One that is still missing then was removed by somebody else, and is passed over. */
const LOOKS_MAX = 3;

/** @throws PosternError `invalid` for a cursor that nobody was given; `overloaded`, NoReplyError */
export async function readMessages(
  { control }: Pick<Coordination, 'control'>,
  ref: LogRef,
  { after, limit, fresh }: ReadMessages,
  deadline: number,
): Promise<MessagePage> {
  const zk = control.until(deadline);
  let isFresh = fresh;
  for (let look = 1; ; look += 1) {
    const { log, zxid } = isFresh ? await zk.fresh(() => readLog(zk, ref)) : await readLog(zk, ref);
    const last = log === undefined ? zxid : log.next - 1;
    if (after === undefined) return { messages: [], cursor: last, missed: false };
    // With nothing behind the cursor, it may be older than what was read before, on an earlier connection.
    if (!isFresh && after >= last) {
      isFresh = true;
      continue;
    }
    if (after > last) throw unknownCursor(after, last);
    const missed = await hasMissed(zk, ref, log, after);
    if (log === undefined) return { messages: [], cursor: last, missed };
    const from = Math.max(after + 1, log.first);
    const count = Math.min(limit, log.next - from);
    if (count <= 0) return { messages: [], cursor: last, missed };
    const paths = Array.from({ length: count }, (_, i) => messagePath(ref, from + i));
    const nodes = await control.largeReads.spend(count * MESSAGE_BYTES, deadline, () => readNodes(zk, paths));
    // Dropped since the log was read: what it says of the reader's cursor is out of date.
    if (nodes.includes(undefined) && look < LOOKS_MAX) continue;
    const messages = nodes.flatMap((node, i) => {
      const record = node === undefined ? undefined : decodeMessage(node.data);
      if (node === undefined || record === undefined) return [];
      const { by, body } = record;
      return [{ number: from + i, by, body, at: node.stat.ctime }];
    });
    return { messages, cursor: from + count - 1, missed };
  }
}

/** `zxid`: of the state that was read. */
async function readLog(zk: BoundClient, ref: LogRef): Promise<{ log: Log | undefined; zxid: number }> {
  try {
    const node = await zk.get(ref.path);
    return { log: decodeLog(ref.name, node), zxid: node.zxid };
  } catch (error) {
    if (!isReason(error, 'NO_NODE')) throw error;
    return { log: undefined, zxid: error.zxid };
  }
}

async function hasMissed(zk: BoundClient, { path }: LogRef, log: Log | undefined, after: number): Promise<boolean> {
  if (log !== undefined && after >= log.first - 1) return false;
  if (log !== undefined && (after >= log.start || log.first > log.start)) return true;
  const directory = await zk.exists(parentOf(path));
  return directory !== undefined && directory.version > 0 && directory.mzxid > after;
}

function unknownCursor(after: number, last: number): InvalidError {
  return new InvalidError(
    'after',
    after,
    `at most ${last}, which is the cursor of the last message; begin anew with a request without after`,
    { in: 'query', cursor: last },
  );
}
