/**
 * Creates a contender's node: one request if the directory exists, otherwise a transaction that creates both, so that a
 * lease that has ended leaves no empty directory behind (protocol C13).
 *
 * A directory is made anew only in a transaction that makes and removes the directory of its marks as well: if there is
 * one, that fails, and the line is made as one in which delays are in use (`delay/lock-delay.ts`).
 *
 * For a semaphore the node is created in a transaction that checks the version of the limit that was compared with, and
 * the directory is made with the limit of who comes first.
 */
import { lockDelaysOf } from '../../../leases/layout.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { Created, CreateMode, MultiOperation, Stat } from '../../../zookeeper/operations.js';
import { parentOf } from '../../../zookeeper/paths.js';
import { createTail } from '../candidate-tail.js';
import { encodeRecord, nodePrefix, type ContenderRecord } from '../contender.js';
import { ownDirectory } from '../directory.js';
import { encodeAgreement } from '../permits/agreement.js';
import type { Line } from '../line.js';
import { createReader } from './downgrade.js';
import { LOOK_AGAIN, type Joining, type LookAgain } from './joining.js';

export interface CreatedNode {
  created: Created;
  /** The directory, if it was made with the node. */
  directory: Stat | undefined;
}

/** A node to be made, and what has to be made with it: the tail of a candidate, the reader's place of a writer. */
interface NewNode {
  path: string;
  data: Buffer;
  mode: CreateMode;
  tail: readonly MultiOperation[];
}

/** How a directory is made. */
interface NewDirectory {
  /**
   * Make and remove the directory of its marks: fails where there is one. Nothing in a line that never has delays, or
   * is made as one that has.
   */
  noMarks: readonly MultiOperation[];
  delays: boolean;
}

export async function createNode(joining: Joining, record: ContenderRecord): Promise<CreatedNode | LookAgain> {
  const { line, request, terms } = joining;
  const { guids, permits } = request;
  const guid = guids.create === 'own' ? guids.own : (guids.shared as string);
  const node: NewNode = {
    path: `${line.path}/${nodePrefix(guid, joining.prefix)}`,
    data: encodeRecord(record),
    mode: request.reservation === undefined ? 'ephemeral-sequential' : 'persistent-sequential',
    tail: tailOf(line, guid, record),
  };
  let directory: NewDirectory | undefined;
  for (;;) {
    try {
      const created = await createIn(joining, node);
      if (created !== undefined) return { created, directory: undefined };
    } catch (error) {
      if (isReason(error, 'BAD_VERSION')) {
        await terms.read(true);
        return LOOK_AGAIN;
      }
      if (isReason(error, 'NODE_EXISTS')) return LOOK_AGAIN; // mine, with the last number there is
      if (!isReason(error, 'NO_NODE')) throw error;
      line.agreed = undefined;
    }
    if (permits !== undefined && permits.limit === undefined) {
      await terms.read(true); // it was forgotten, and this request cannot say what it is
      return LOOK_AGAIN;
    }
    directory ??= { noMarks: withoutMarks(joining), delays: false };
    const created = await createWithDirectory(joining, node, directory);
    if (created !== undefined) return created;
  }
}

function tailOf({ kind, path }: Line, guid: string, record: ContenderRecord): MultiOperation[] {
  if (kind === 'election') return [createTail(path, guid, record)];
  return record.downgradable === true ? [createReader(path, guid, record)] : [];
}

/**
 * In a directory that is there; of a semaphore only while the limit is the one that was compared.
 * @returns undefined when it is not known that there is a directory
 */
function createIn(joining: Joining, node: NewNode): Promise<Created | undefined> {
  const { session, request } = joining;
  if (node.tail.length > 0 || request.permits !== undefined) return createWith(joining, node);
  return session.create(node.path, node.data, { mode: node.mode }, request.hardDeadline);
}

/** Together with what has to be made, or be so, with it. */
async function createWith(joining: Joining, { path, data, mode, tail }: NewNode): Promise<Created | undefined> {
  const { session, line, request } = joining;
  const create: MultiOperation = { type: 'create', path, data, mode };
  if (tail.length > 0) {
    const [created] = await session.multi([create, ...tail], request.hardDeadline);
    return created?.type === 'create' ? created : undefined;
  }
  if (line.agreed === undefined) return undefined;
  const limitStands: MultiOperation = { type: 'check', path: line.path, version: line.agreed.version };
  const [, created] = await session.multi([limitStands, create], request.hardDeadline);
  return created?.type === 'create' ? created : undefined;
}

function withoutMarks({ line }: Joining): MultiOperation[] {
  if ((line.kind !== 'lock' && line.kind !== 'rwlock') || line.rule.isRoom === true) return [];
  const path = lockDelaysOf(line.path);
  return [
    { type: 'create', path },
    { type: 'delete', path },
  ];
}

/**
 * Directory and first child.
 * @returns undefined when the directory may be there by now, or can be made by now: to be tried again
 */
async function createWithDirectory(
  joining: Joining,
  { path, data, mode, tail }: NewNode,
  directory: NewDirectory,
): Promise<CreatedNode | LookAgain | undefined> {
  const { context, session, line, request, terms } = joining;
  const { hardDeadline } = request;
  const { noMarks, delays } = directory;
  const limit = request.permits?.limit;
  await context.names.admit(parentOf(line.path), hardDeadline);
  try {
    const results = await session.multi(
      [
        ...noMarks,
        {
          type: 'create',
          path: line.path,
          data: limit === undefined ? ownDirectory(delays) : encodeAgreement({ limit, high: limit }),
        },
        { type: 'create', path, data, mode },
        ...tail,
      ],
      hardDeadline,
    );
    const [made, created] = results.slice(noMarks.length);
    if (made?.type !== 'create' || created?.type !== 'create') return undefined;
    if (limit !== undefined) line.agree({ limit, high: limit, version: 0, mzxid: created.stat.czxid });
    return { created, directory: made.stat };
  } catch (error) {
    if (isReason(error, 'NO_NODE')) {
      await context.control.ensurePath(parentOf(line.path), hardDeadline);
      if (noMarks.length > 0) await context.control.ensurePath(parentOf(lockDelaysOf(line.path)), hardDeadline);
    } else if (!isReason(error, 'NODE_EXISTS')) throw error;
    else if (noMarks.length > 0 && error.failedIndex === 0) {
      directory.noMarks = [];
      directory.delays = true;
    } else if (request.permits !== undefined) {
      await terms.read(true);
      return LOOK_AGAIN;
    }
    return undefined;
  }
}
