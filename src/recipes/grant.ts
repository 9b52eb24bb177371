/**
 * Granting a place whose turn has come: the version-checked write that makes it a hold (protocol C3).
 *
 * For locks and read-write locks the write is a transaction with a check of the directory's version: it was read to see whether
 * delays are in use in this line, and the grant fails if that has been written since. Then the marks are read before it is tried
 * again. The grant of a hold with a delay makes its mark, and writes that delays are in use where nobody has (`lock-delay.ts`).
 *
 * For a semaphore the write is a transaction with a check of the agreed limit's version. My turn was decided from a list that shows
 * everybody who stands before me (and perhaps some who have gone), and from one version of the limit. The set before me only shrinks,
 * and the limit is the one that was counted with; so when the transaction is done, all before me and I fit, whether they hold yet or not.
 *
 * Those *behind* me hold nothing that this does not cover, because I was counted before each of them. Except after the limit was
 * lowered: somebody behind me may have been granted under the old one, while I had not answered yet. While that can be (`high` above
 * `limit`) I look: all before me, I, and whoever holds behind me must fit, else it is not my turn yet. When nobody holds any more who
 * does not fit, the same transaction says so, and the looking ends.
 */
import { lockDelaysOf } from '../leases/layout.js';
import { fullJitter, pause } from '../time.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isTransient, zooKeeperReason } from '../zookeeper/errors.js';
import type { MultiOperation, MultiReadResult } from '../zookeeper/operations.js';
import type { ServerClock } from '../zookeeper/server-clock.js';
import { encodeAgreement, readAgreement, type Agreement } from './agreement.js';
import { decodeRecord, type Contender, type ContenderRecord } from './contender.js';
import type { Line } from './line.js';
import { withDelays, type LineDirectory } from './line-directory.js';
import { delayBefore, type Locked } from './lock-delay.js';
import type { Place, Written } from './place.js';
import { permitsOf } from './rule.js';

/** So many nodes are read in one request: far below the packet limit, with the largest `data` that is allowed. */
const READ_AT_ONCE = 32;

const RETRY_BASE_MS = 10;
const RETRY_CAP_MS = 500;

interface GrantContext {
  control: ControlSession;
  zooKeeperClock: ServerClock;
}

/** @returns `lockedUntil`: a lock-delay runs; it goes on waiting */
export async function grant(
  context: GrantContext,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Written | Locked> {
  const { control, zooKeeperClock } = context;
  const granted = (): Partial<ContenderRecord> => ({ state: 'granted', grantedAt: zooKeeperClock.now() });
  if (line.rule.kind === 'election') return place.write(granted(), deadline);
  const { delayMs = 0 } = place.record;
  for (let again = false; ; again = true) {
    const known = again ? undefined : line.directory;
    const now = known ?? (await patiently(deadline, () => line.readDirectory(deadline)));
    // Without a directory there is no place either.
    if (now === undefined) return 'lost';
    const locked = await patiently(deadline, () => delayBefore(context, line, place, deadline));
    if (locked !== undefined) return locked;
    if (delayMs > 0 && (again || !now.delays))
      await patiently(deadline, () => control.ensurePath(lockDelaysOf(line.path), deadline));
    const written = await place.write(granted(), deadline, directoryGuard(line.path, now, delayMs));
    if (written === 'written' && delayMs > 0 && !now.delays) line.delaysInUse(now);
    if (written !== 'unguarded') return written;
  }
}

/** Repeats what may be done twice, over lost connections. */
async function patiently<T>(deadline: number, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      const ms = fullJitter(attempt, RETRY_BASE_MS, RETRY_CAP_MS);
      if (!isTransient(error) || performance.now() + ms >= deadline) throw error;
      await pause(ms);
    }
  }
}

/** What must be so of a line's directory for a grant, and becomes so with it. */
export function directoryGuard(path: string, directory: LineDirectory, delayMs: number): MultiOperation {
  const { version, delays } = directory;
  return delayMs > 0 && !delays
    ? { type: 'setData', path, data: withDelays(directory), version }
    : { type: 'check', path, version };
}

/** @returns `not-yet`: the limit has changed since the place's turn had come; it goes on waiting */
export async function grantPermits(
  context: GrantContext,
  line: Line,
  place: Place,
  deadline: number,
): Promise<Written | 'not-yet'> {
  const granted = { state: 'granted' as const, grantedAt: context.zooKeeperClock.now() };
  await line.refresh(place.czxid, deadline);
  for (;;) {
    const { agreed } = line;
    if (agreed !== undefined) {
      if (line.indexOf(place) >= line.rule.admitted(line.members)) return 'not-yet';
      const guard = await guardOf(context.control, line, place, agreed, deadline);
      if (guard === undefined) return 'not-yet';
      const written = await place.write(granted, deadline, guard);
      if (written !== 'unguarded') return written;
    }
    await context.control.sync(line.path, deadline);
    const now = await readAgreement(context.control, line.path, deadline);
    // Without a directory there is no place either.
    if (now === undefined) return 'lost';
    line.agree(now);
  }
}

/** What must be so, in the same transaction, for the grant to be one. @returns undefined when somebody holds who does not fit any more */
async function guardOf(
  control: ControlSession,
  line: Line,
  place: Place,
  agreed: Agreement,
  deadline: number,
): Promise<MultiOperation | undefined> {
  const { limit, high, version } = agreed;
  if (high <= limit) return { type: 'check', path: line.path, version };
  await control.sync(line.path, deadline);
  await line.list(deadline);
  const { members, rule } = line;
  const first = members.slice(0, rule.holding(members));
  const mine = first.findIndex(({ name }) => name === place.name);
  const before = sum(first.slice(0, Math.max(0, mine)));
  const holding = await thoseWhoHold(control, line.path, first, deadline);
  const behind = sum(holding.filter((contender) => first.indexOf(contender) > mine));
  if (before + permitsOf(place) + behind > limit) return undefined;
  const admitted = members.slice(0, rule.admitted(members));
  if (holding.every((contender) => admitted.includes(contender)))
    return { type: 'setData', path: line.path, data: encodeAgreement({ limit, high: limit }), version };
  return { type: 'check', path: line.path, version };
}

async function thoseWhoHold(
  control: ControlSession,
  directory: string,
  contenders: readonly Contender[],
  deadline: number,
): Promise<Contender[]> {
  const holding: Contender[] = [];
  for (let i = 0; i < contenders.length; i += READ_AT_ONCE) {
    const batch = contenders.slice(i, i + READ_AT_ONCE);
    const reads = batch.map(({ name }) => ({ type: 'getData' as const, path: `${directory}/${name}` }));
    const { results } = await control.multiRead(reads, deadline);
    holding.push(...batch.filter((_, k) => holds(results[k] as MultiReadResult)));
  }
  return holding;
}

/** What cannot be read, for whatever reason but its end, is taken to hold. */
function holds(result: MultiReadResult): boolean {
  if ('data' in result) return decodeRecord(result.data)?.state !== 'waiting';
  return !('error' in result) || zooKeeperReason(result.error) !== 'NO_NODE';
}

function sum(contenders: readonly Contender[]): number {
  return contenders.reduce((total, contender) => total + permitsOf(contender), 0);
}
