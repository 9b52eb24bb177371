/**
 * Granting a place whose turn has come: the version-checked write that makes it a hold (protocol C3).
 *
 * For locks and read-write locks the write is a transaction with a check of the directory's version: it was read to see
 * whether delays are in use in this line, and the grant fails if that has been written since. Then the marks are read
 * before it is tried again. The grant of a hold with a delay makes its mark, and writes that delays are in use where
 * nobody has (`lock-delay.ts`).
 *
 * For a semaphore the write is a transaction with a check of the agreed limit's version. The turn was decided from a
 * list that shows every contender before this one (and perhaps some that are gone), and from one version of the limit.
 * That set only shrinks, and the limit is the one that was counted with; so when the transaction is done, this
 * contender and all before it fit, whether they hold yet or not.
 *
 * Those *behind* me hold nothing that this does not cover, because I was counted before each of them. Except after the
 * limit was lowered: somebody behind me may have been granted under the old one, while I had not answered yet. While
 * that can be (`high` above `limit`) I look: all before me, I, and whoever holds behind me must fit, else it is not my
 * turn yet. When nobody holds any more who does not fit, the same transaction says so, and the looking ends.
 */
import { lockDelaysOf } from '../../leases/layout.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { zooKeeperReason } from '../../zookeeper/errors.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { MultiOperation, MultiReadResult } from '../../zookeeper/operations.js';
import { encodeAgreement, readAgreement, type Agreement } from './permits/agreement.js';
import { decodeRecord, type Contender, type ContenderRecord } from './contender.js';
import type { Assign, Line } from './line.js';
import { withDelays, type LineDirectory } from './directory.js';
import { delayBefore, type DelayContext, type Locked } from './delay/lock-delay.js';
import type { Place, Written } from './place.js';
import { permitsOf } from './rule.js';

/** So many nodes are read in one request: far below the packet limit, with the largest `data` that is allowed. */
const READ_AT_ONCE = 32;

/** Whether the place that is first is already the hold: it was created as `granted`, and no delay can be running. */
export function isHeld(line: Line, place: Place): boolean {
  return place.record.state === 'granted' && (line.kind === 'semaphore' || line.directory?.delays !== true);
}

/** The write that turns the first place into the hold. */
export async function grantFirst(
  context: DelayContext,
  line: Line,
  place: Place,
  { assign, hardDeadline: deadline }: { assign?: Assign | undefined; hardDeadline: number },
): Promise<Written | 'not-yet' | Locked> {
  if (assign !== undefined) return assign({ place, line, deadline, wake: undefined });
  if (line.kind === 'semaphore') return grantPermits(context, line, place, deadline);
  if (place.record.state === 'waiting') return grant(context, line, place, deadline);
  return (await delayBefore(context, line, place, deadline)) ?? 'written';
}

/** @returns `lockedUntil`: a lock-delay runs; it goes on waiting */
export async function grant(
  context: DelayContext,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Written | Locked> {
  const { control, zooKeeperClock } = context;
  const granted = (): Partial<ContenderRecord> => ({ state: 'granted', grantedAt: zooKeeperClock.now() });
  if (line.kind === 'election') return place.write(granted(), deadline);
  const { delayMs = 0 } = place.record;
  for (let again = false; ; again = true) {
    const known = again ? undefined : line.directory;
    const now = known ?? (await retrying(deadline, () => line.readDirectory(deadline)));
    // Without a directory there is no place either.
    if (now === undefined) return 'lost';
    const locked = await delayBefore(context, line, place, deadline);
    if (locked !== undefined) return locked;
    // It stood here before the lock came to be one by priority, of which there are no delays.
    if (now.byPriority && delayMs > 0) {
      await place.leave(deadline);
      return 'lost';
    }
    if (delayMs > 0 && (again || !now.delays))
      await retrying(deadline, () => control.ensurePath(lockDelaysOf(line.path), deadline));
    const written = await place.write(granted(), deadline, directoryGuard(line.path, now, delayMs));
    if (written === 'written' && delayMs > 0 && !now.delays) line.delaysInUse(now);
    if (written !== 'unguarded') return written;
  }
}

/**
 * Writes `waiting` to a place that was made as `granted` and is not the first. Once nobody stands before it, it is
 * shown as the hold, so that is written only while somebody does; one who is found gone is struck from the list. What
 * others of this replica have listed since may show nobody either.
 * @returns `granted`: nobody stood before it any more
 */
export async function standBack(
  context: DelayContext,
  line: Line,
  place: Place,
  until: Pick<ContenderRecord, 'waitUntil'>,
  deadline: number,
): Promise<Written | 'granted'> {
  const waiting = { state: 'waiting' as const, ...until };
  // In an election the first leads whatever its node says.
  if (line.rule.leads) return place.write(waiting, deadline);
  for (;;) {
    const [before] = line.blockersOf(place);
    if (before === undefined) {
      const granted = await grant(context, line, place, deadline);
      if (typeof granted === 'string') return granted === 'written' ? 'granted' : granted;
      return place.write(waiting, deadline); // a delay runs
    }
    const stands: MultiOperation = { type: 'check', path: `${line.path}/${before.name}` };
    const written = await place.write(waiting, deadline, stands);
    if (written !== 'unguarded') return written;
    line.remove(before);
  }
}

/** The state of the line's directory that a grant requires, or brings about in its own transaction. */
export function directoryGuard(path: string, directory: LineDirectory, delayMs: number): MultiOperation {
  const { version, delays } = directory;
  return delayMs > 0 && !delays
    ? { type: 'setData', path, data: withDelays(directory), version }
    : { type: 'check', path, version };
}

/** @returns `not-yet`: the limit has changed since the place's turn had come; it goes on waiting */
export async function grantPermits(
  context: DelayContext,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Written | 'not-yet'> {
  const granted = { state: 'granted' as const, grantedAt: context.zooKeeperClock.now() };
  const zk = context.control.until(deadline);
  await retrying(deadline, () => line.refresh(place.czxid, deadline));
  for (;;) {
    const { agreed } = line;
    if (agreed !== undefined) {
      if (line.indexOf(place) >= line.rule.admitted(line.members)) return 'not-yet';
      const guard = await retrying(deadline, () => guardOf(zk, line, place, agreed));
      if (guard === undefined) return 'not-yet';
      const written = await place.write(granted, deadline, guard);
      if (written !== 'unguarded') return written;
    }
    const now = await retrying(deadline, async () => {
      await zk.sync(line.path);
      return readAgreement(zk, line.path);
    });
    // Without a directory there is no place either.
    if (now === undefined) return 'lost';
    line.agree(now);
  }
}

/**
 * What must be so, in the same transaction, for the grant to be one.
 * @returns undefined when somebody holds who does not fit any more
 */
async function guardOf(
  zk: BoundClient,
  line: Line,
  place: Place,
  agreed: Agreement,
): Promise<MultiOperation | undefined> {
  const { limit, high, version } = agreed;
  if (high <= limit) return { type: 'check', path: line.path, version };
  await zk.sync(line.path);
  await line.list(zk.deadline);
  const { members, rule } = line;
  const first = members.slice(0, rule.holding(members));
  const mine = first.findIndex(({ name }) => name === place.name);
  const before = sum(first.slice(0, Math.max(0, mine)));
  const holding = await thoseWhoHold(zk, line.path, first);
  const behind = sum(holding.filter((contender) => first.indexOf(contender) > mine));
  if (before + permitsOf(place) + behind > limit) return undefined;
  const admitted = members.slice(0, rule.admitted(members));
  if (holding.every((contender) => admitted.includes(contender)))
    return { type: 'setData', path: line.path, data: encodeAgreement({ limit, high: limit }), version };
  return { type: 'check', path: line.path, version };
}

async function thoseWhoHold(
  zk: BoundClient,
  directory: string,
  contenders: readonly Contender[],
): Promise<Contender[]> {
  const holding: Contender[] = [];
  for (let i = 0; i < contenders.length; i += READ_AT_ONCE) {
    const batch = contenders.slice(i, i + READ_AT_ONCE);
    const reads = batch.map(({ name }) => ({ type: 'getData' as const, path: `${directory}/${name}` }));
    const { results } = await zk.multiRead(reads);
    holding.push(...batch.filter((_, k) => holds(results[k] as MultiReadResult)));
  }
  return holding;
}

/** A contender that cannot be read counts as a holder, unless it does not exist any more. */
function holds(result: MultiReadResult): boolean {
  if ('data' in result) return decodeRecord(result.data)?.state !== 'waiting';
  return !('error' in result) || zooKeeperReason(result.error) !== 'NO_NODE';
}

function sum(contenders: readonly Contender[]): number {
  return contenders.reduce((total, contender) => total + permitsOf(contender), 0);
}
