/**
 * Housekeeping of lines:
 *
 * - A directory of a line in which nobody has stood for an hour is removed. Not earlier: its sequence numbers would
 *   begin anew while somebody may still remember the old ones (protocol C10; everything here forgets within 30
 *   minutes). Where the data are ours to write, it says that it is idle for a minute before that (`known-free.ts`), and
 *   when it was used meanwhile, that it stays after all. The deletion fails by itself when somebody steps in at that
 *   moment.
 * - One in which more than half of all sequence numbers are used is made anew when it is empty (`worn-directory.ts`).
 * - A holder that a foreign client has asked to let go is told (`revocation/foreign.ts`).
 * - Revocations whose hold is gone, and what is kept for leases that have ended, are removed.
 * - An abandoned place at the head of a line is removed also where nobody waits behind it.
 */
import { LINE_KINDS, ROOM, type PlaceKind } from '../../leases/layout.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { ZooKeeperError } from '../../zookeeper/errors.js';
import type { Stat } from '../../zookeeper/operations.js';
import { baseName, nextSequence } from '../../zookeeper/paths.js';
import type { Coordination } from '../coordination.js';
import type { Chore, HousekeepingTiming } from '../housekeeping/housekeeping.js';
import { IdleTimes, type Idle } from '../housekeeping/idle-times.js';
import { unlessNewer } from '../known-record.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { removeIfAbandoned } from './abandoned.js';
import { sortLine, type Contender } from './contender.js';
import { idleDirectory, ownDirectory, readLineDirectory, type LineDirectory } from './directory.js';
import { IDLE_BEFORE_REMOVED_MS } from './known-free.js';
import { readRule } from './permits/agreement.js';
import { heedIfOverwritten } from './revocation/foreign.js';
import { tidyRevocations } from './revocation/tidy.js';
import { PLACES_END, renewDirectory, WORN_FROM } from './worn-directory.js';

interface IdleLine extends Idle {
  /** Of a semaphore: the version of its limit. To set it is to use the semaphore, also where nobody takes a permit. */
  limitVersion: number | undefined;
  /** Monotonic: since when the directory says that it is idle, as far as this replica knows. */
  saidSince?: number;
}

export class TidyLines implements Chore {
  readonly #context: Coordination;
  readonly #timing: HousekeepingTiming;
  readonly #idle = new IdleTimes<IdleLine>();

  constructor(context: Coordination, timing: HousekeepingTiming) {
    this.#context = context;
    this.#timing = timing;
  }

  handedOver(): void {
    this.#idle.forget();
  }

  /** One round over all lines. */
  async sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    await this.#idle.sweep(
      sweep,
      (namespace) => [...LINE_KINDS, ROOM].map((kind) => ({ kind, namespace, path: layout.lines(kind, namespace) })),
      (directory, before, parent) => this.#tidy(sweep, parent, directory, before),
    );
    for (const leaseId of await sweep.children(layout.revocations)) {
      if (sweep.stopped) return;
      await tidyRevocations(this.#context, leaseId, sweep.deadline());
    }
  }

  /** @returns what is to be remembered of a directory that stays although nobody is in it */
  async #tidy(
    sweep: Sweep,
    { kind, namespace }: { kind: PlaceKind; namespace: string },
    directory: string,
    before: IdleLine | undefined,
  ): Promise<IdleLine | undefined> {
    const listing = await sweep.zk().list(directory);
    if (listing === undefined) return undefined;
    const line = sortLine(listing.children);
    const rule = await readRule(sweep.zk(), kind, directory).catch(unlessNewer);
    if (rule === undefined) return before; // who is admitted here only a replica of a newer release knows
    const heads =
      kind === ROOM ? await this.#inTheWay(sweep, namespace, directory, line) : line.slice(0, rule.admitted(line));
    for (const contender of heads) {
      if (sweep.stopped) return before;
      const isGone = await removeIfAbandoned(this.#context, directory, contender, sweep.deadline());
      // Nobody holds in it: each of them, up to the first who is not abandoned.
      if (kind === ROOM && !isGone) break;
      if (kind === ROOM) continue;
      const path = `${directory}/${contender.name}`;
      await heedIfOverwritten(this.#context, { kind, namespace, name: baseName(directory), path }, sweep.deadline());
    }
    const zk = sweep.zk();
    const { stat, children } = listing;
    // Behind the last place it is those who come that renew it (`worn-directory.ts`).
    if (nextSequence(stat) >= WORN_FROM && nextSequence(stat) < PLACES_END) {
      await renewDirectory(zk, directory); // whatever was listed: a busy line is empty for moments only
      return undefined;
    }
    const limitVersion = kind === 'semaphore' ? stat.version : undefined;
    const changed = before?.pzxid !== stat.pzxid || before.limitVersion !== limitVersion;
    const used = children.length > 0 || (before !== undefined && changed);
    try {
      const stays = kind === 'semaphore' ? undefined : readLineDirectory(stat);
      if (used && stays?.idle === true)
        await zk.set(directory, ownDirectory(stays.delays, stays.byPriority), stat.version);
      if (children.length > 0) return undefined;
      const idle: IdleLine = changed ? { pzxid: stat.pzxid, limitVersion, since: performance.now() } : before;
      if (!(await this.#mayRemove(zk, directory, { stat, line: stays, idle }))) return idle;
      await zk.remove(directory, stat.version);
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error; // somebody stepped in, or removed it
    }
    return undefined;
  }

  /** Of a room: nobody, while somebody stands in the line. */
  async #inTheWay(sweep: Sweep, namespace: string, room: string, waiting: Contender[]): Promise<Contender[]> {
    const line = this.#context.layout.line('lock', namespace, baseName(room));
    return sortLine(await sweep.zk().children(line)).length > 0 ? [] : waiting;
  }

  /**
   * Whether an empty directory has been idle for long enough, and has said so for long enough where it says such
   * things.
   */
  async #mayRemove(
    zk: BoundClient,
    directory: string,
    { stat, line, idle }: { stat: Stat; line: LineDirectory | undefined; idle: IdleLine },
  ): Promise<boolean> {
    const { idleMs, removedAfterMs = IDLE_BEFORE_REMOVED_MS } = this.#timing;
    if (performance.now() - idle.since < idleMs) return false;
    // Numbers in the directory of a semaphore, or of another program, are never relied on.
    if (line === undefined || (line.removable && !line.idle)) return true;
    if (!line.idle) await zk.set(directory, idleDirectory(line), stat.version);
    if (!line.idle || idle.saidSince === undefined) {
      idle.saidSince = performance.now();
      return false;
    }
    return performance.now() - idle.saidSince >= removedAfterMs;
  }
}
