/**
 * What one replica at a time tidies up: the one whose control session owns `<root>/housekeeper`. When it dies the node goes with
 * its session and another replica takes over at its next turn. Nothing depends on it but the size of the tree and
 * how long an abandoned place can stand in an otherwise empty line.
 *
 * - A directory of a line in which nobody has stood for an hour is removed. Not earlier: its sequence numbers would begin anew
 *   while somebody may still remember the old ones (protocol C10; everything here forgets within 30 minutes). Where the data are ours to
 *   write, it says that it is idle for a minute before that (`free-lines.ts`), and when it was used meanwhile, that it stays after all. The
 *   deletion fails by itself when somebody steps in at that moment.
 * - A holder that a foreign client has asked to let go is told (`foreign-revoke.ts`).
 * - Revocations whose hold is gone, and what is kept for leases that have ended, are removed.
 * - An abandoned place at the head of a line is removed also where nobody waits behind it.
 * - Then the chores of the other recipes, one after the other.
 */
import { LINE_KINDS, type LineKind } from '../leases/layout.js';
import { fullJitter, HOUR, MINUTE } from '../time.js';
import { NoReplyError, ZooKeeperError, isReason, unless } from '../zookeeper/errors.js';
import type { Stat } from '../zookeeper/operations.js';
import { baseName, parentOf } from '../zookeeper/paths.js';
import { removeIfAbandoned } from './abandoned.js';
import { readRule } from './agreement.js';
import { sortLine } from './contender.js';
import type { Coordination } from './coordination.js';
import { heedIfOverwritten } from './foreign-revoke.js';
import { IDLE_BEFORE_REMOVED_MS } from './free-lines.js';
import { idleDirectory, ownDirectory, readLineDirectory, type LineDirectory } from './line-directory.js';
import { tidyRevocations } from './tidy-revocations.js';

export interface HousekeepingTiming {
  everyMs: number;
  /** How long a directory must have been unused. */
  idleMs: number;
  /** How long it then says so before it is removed; a minute unless said otherwise. */
  removedAfterMs?: number;
  /** How long a deleted configuration key keeps its version; a day unless said otherwise. */
  tombstoneMs?: number;
  /** How long a repeated operation on a counter is recognised; five minutes unless said otherwise. */
  counterMarkMs?: number;
}

export const HOUSEKEEPING_TIMING: HousekeepingTiming = { everyMs: MINUTE, idleMs: HOUR };
/** One thing to tidy up: goes over what is there once. Nothing may depend on when, or by which replica. */
export interface Chore {
  /** @param stopped whether the replica is shutting down: to be asked between two steps */
  sweep(stopped: () => boolean): Promise<void>;
}

const AT_ONCE = 64;
const REQUEST_MS = 10_000;

interface Idle {
  /** The last change to the directory's children. */
  pzxid: number;
  /** Monotonic. */
  since: number;
  /** Monotonic: since when the directory says that it is idle, as far as this replica knows. */
  saidSince?: number;
}

export class Housekeeping {
  readonly #context: Coordination;
  readonly #timing: HousekeepingTiming;
  readonly #onFault: (error: unknown) => void;
  readonly #chores: readonly Chore[];
  #idle = new Map<string, Idle>();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  /** @param chores of the other recipes; one that fails is reported and does not keep the others from their turn */
  constructor(
    context: Coordination,
    onFault: (error: unknown) => void,
    timing = HOUSEKEEPING_TIMING,
    chores: readonly Chore[] = [],
  ) {
    this.#context = context;
    this.#timing = timing;
    this.#onFault = onFault;
    this.#chores = chores;
  }

  start(): void {
    this.#schedule(fullJitter(0, this.#timing.everyMs, this.#timing.everyMs));
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => void this.#turn(), ms).unref();
  }

  async #turn(): Promise<void> {
    if (!(await this.#attempt(() => this.#lead()))) this.#idle.clear();
    else {
      await this.#attempt(() => this.sweep());
      for (const chore of this.#chores) {
        if (!this.#stopped) await this.#attempt(() => chore.sweep(() => this.#stopped));
      }
    }
    this.#schedule(this.#timing.everyMs / 2 + fullJitter(0, this.#timing.everyMs, this.#timing.everyMs));
  }

  /** @returns undefined when it failed; the next turn tries again */
  async #attempt<T>(step: () => Promise<T>): Promise<T | undefined> {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof NoReplyError)) this.#onFault(error);
      return undefined;
    }
  }

  /** Whether this replica is the housekeeper now, after trying to become it. */
  async #lead(): Promise<boolean> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    const owner = await control.exists(layout.housekeeper, deadline);
    if (owner !== undefined) return owner.ephemeralOwner === control.sessionId;
    try {
      await control.ensurePath(parentOf(layout.housekeeper), deadline);
      await control.create(layout.housekeeper, undefined, { mode: 'ephemeral' }, deadline);
      return true;
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) return false;
      throw error;
    }
  }

  /** One round over all lines. */
  async sweep(): Promise<void> {
    const { layout } = this.#context;
    const seen = new Map<string, Idle>();
    for (const namespace of await this.#children(layout.namespaces)) {
      for (const kind of LINE_KINDS) {
        const names = await this.#children(layout.lines(kind, namespace));
        for (let i = 0; i < names.length && !this.#stopped; i += AT_ONCE) {
          const batch = names.slice(i, i + AT_ONCE).map((name) => layout.line(kind, namespace, name));
          await Promise.all(batch.map((directory) => this.#tidy(kind, namespace, directory, seen)));
        }
      }
    }
    this.#idle = seen;
    for (const leaseId of await this.#children(layout.revocations)) {
      if (this.#stopped) return;
      await tidyRevocations(this.#context, leaseId, performance.now() + REQUEST_MS);
    }
  }

  async #tidy(kind: LineKind, namespace: string, directory: string, seen: Map<string, Idle>): Promise<void> {
    const { control, zooKeeperClock } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    const listing = await unless(control.getChildren(directory, deadline), 'NO_NODE');
    if (listing === undefined) return;
    const line = sortLine(listing.children);
    const rule = await readRule(control, kind, directory, deadline);
    for (const contender of line.slice(0, rule.admitted(line))) {
      await removeIfAbandoned(control, zooKeeperClock, directory, contender, deadline);
      const path = `${directory}/${contender.name}`;
      await heedIfOverwritten(this.#context, { kind, namespace, name: baseName(directory), path }, deadline);
    }
    const { stat, children } = listing;
    const before = this.#idle.get(directory);
    const used = children.length > 0 || (before !== undefined && before.pzxid !== stat.pzxid);
    try {
      const stays = kind === 'semaphore' ? undefined : readLineDirectory(stat);
      if (used && stays?.idle === true)
        await control.setData(directory, ownDirectory(stays.delays), stat.version, deadline);
      if (children.length > 0) return;
      const idle: Idle = before === undefined || used ? { pzxid: stat.pzxid, since: performance.now() } : before;
      if (await this.#mayRemove(directory, stat, stays, idle)) await control.delete(directory, stat.version, deadline);
      else seen.set(directory, idle);
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error; // somebody stepped in, or removed it
    }
  }

  /** Whether an empty directory has been idle for long enough, and has said so for long enough where it says such things. */
  async #mayRemove(directory: string, stat: Stat, line: LineDirectory | undefined, idle: Idle): Promise<boolean> {
    const { idleMs, removedAfterMs = IDLE_BEFORE_REMOVED_MS } = this.#timing;
    if (performance.now() - idle.since < idleMs) return false;
    // Of a semaphore, and of somebody else's directory, no number is ever believed.
    if (line === undefined || (line.removable && !line.idle)) return true;
    if (!line.idle) {
      const deadline = performance.now() + REQUEST_MS;
      await this.#context.control.setData(directory, idleDirectory(line), stat.version, deadline);
    }
    if (!line.idle || idle.saidSince === undefined) {
      idle.saidSince = performance.now();
      return false;
    }
    return performance.now() - idle.saidSince >= removedAfterMs;
  }

  async #children(path: string): Promise<string[]> {
    return (
      (await unless(this.#context.control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? []
    );
  }
}
