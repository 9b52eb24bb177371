/**
 * This replica's knowledge of one line, shared by all of its requests for that name.
 *
 * Everything here rests on two facts:
 * - A sequence number is assigned once while the directory exists, and the directory exists while any contender is in
 *   it. So the set before a contender can only shrink: a listing that shows its own node is complete for it, forever,
 *   and it works through that list as members leave. There is no listing per hand-off.
 * - Of two listings the one with the higher zxid is the newer; it lacks whoever has gone, and whoever came later has a
 *   higher sequence than all it shows.
 *
 * A line is kept while a request in this replica uses it. It is a cache: every decision is made by a
 * version-checked write.
 *
 * Reading order: `contender.ts`, `rule.ts` and `place.ts` (what all others speak of); then a request's way:
 * `request.ts`, `acquire.ts`, `join/`, `waiter.ts` with `blockers.ts`, `grant.ts`, `release.ts`. The rest is for what
 * does not go well (`abandoned.ts`, `cleanup.ts`, `worn-directory.ts`, `tidy.ts`, `delay/`, `revocation/`), for who
 * looks on (`view.ts`, `observer.ts`, `guard.ts`), and for single kinds of line (`permits/` of semaphores,
 * `candidate-tail.ts` of elections, `known-free.ts` of locks, `room/` of locks by priority).
 */
import type { ROOM } from '../../leases/layout.js';
import type { Metrics, Kind } from '../../metrics/metrics.js';
import { LruMap } from '../../lru-map.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import { isReason } from '../../zookeeper/errors.js';
import type { Stat } from '../../zookeeper/operations.js';
import { sortLine, type Contender } from './contender.js';
import { readLineDirectory, type LineDirectory, type SeenDirectory } from './directory.js';
import type { Place, Written } from './place.js';
import { ruleOfAgreement, type Agreement } from './permits/agreement.js';
import { ruleOf, type LineRule } from './rule.js';

/** A request of this replica that waits in the line, as others of this replica see it (`waiter.ts`). */
export interface Waiter {
  readonly place: Place;
  /** The place is admitted, as far as is known. */
  turn(): void;
  /** Another attempt of the same client took the place over. */
  supersede(): void;
  /** The client released the place that this request waits in, or it is gone. */
  giveUp(): void;
  /**
   * Called by a release in this replica that is about to delete the node before this one and to grant this one in one
   * transaction.
   * @returns false when this request is already writing or leaving
   */
  beginHandover(): boolean;
  /** @param done whether the transaction has granted the place */
  endHandover(done: boolean): void;
  /** Tells `waiter`, which waits for this place to go, when this request waits no more: it need not watch till then. */
  tellEnd(waiter: Waiter): void;
  tellEndNoMore(waiter: Waiter): void;
  /**
   * Called by the request before this one, which waits no more.
   * @param how its place is a hold now; or is gone, with what it was granted instead; or has been left
   */
  beforeEnded(how: 'granted' | 'gone' | 'left'): void;
}

/** What a place does when its turn has come, where it does not become the hold itself. */
export interface Turn {
  readonly place: Place;
  /** Shows the state in which all before the place are gone. */
  readonly line: Pick<Line, 'zxid' | 'remove'>;
  readonly deadline: number;
  /** To be called when it is worth another try, once it was `not-yet`. Undefined: nobody waits for that yet. */
  readonly wake: (() => void) | undefined;
}

/** @returns as the write of a grant does; `not-yet`: what is wanted cannot be had now */
export type Assign = (turn: Turn) => Promise<Written | 'not-yet'>;

/** Says whose turn it is at a semaphore, or in a room, to all waiting requests of this replica. */
export interface Turns {
  /** A request joined. */
  look(): void;
  /** Somebody left the list, by whatever it was noticed, or the limit changed. */
  changed(): void;
  /** A request that was told finds that it is not its turn yet. */
  defer(waiter: Waiter): void;
  /** A request waits no more, however that ended. */
  leave(waiter: Waiter): void;
}

export class Line {
  readonly path: string;
  readonly kind: Kind;
  rule: LineRule;
  /** Semaphores only: the limit that its users agreed on, once it has been read. */
  agreed: Agreement | undefined;
  /** Semaphores, and rooms, only, while a request waits. */
  turns: Turns | undefined;
  /**
   * Until then, monotonic, a hold that this replica granted is watched at once: one was given back unseen before that
   * was found to be worth it (`waiter.ts`).
   */
  watchAtOnceUntil = 0;
  /** Waiting requests of this replica, by the name of their node. */
  readonly waiters = new Map<string, Waiter>();
  users = 0;
  /** The directory's data at the newest reading. */
  directory: LineDirectory | undefined;
  /** When the directory was last listed, as far as somebody who joined can date it. */
  seen: SeenDirectory | undefined;
  readonly #control: ControlSession;
  readonly #metrics: Metrics;
  /** In the order of their sequence numbers. May still show some that have gone. */
  #members: Contender[] = [];
  #zxid = -1;
  #listedZxid = -1;
  #listing: Promise<number> | undefined;

  constructor(path: string, rule: LineRule, control: ControlSession, metrics: Metrics) {
    this.path = path;
    this.kind = rule.kind;
    this.rule = rule;
    this.#control = control;
    this.#metrics = metrics;
  }

  get members(): readonly Contender[] {
    return this.#members;
  }

  /** How new the newest listing is that it was made from. */
  get zxid(): number {
    return this.#zxid;
  }

  /** The same of the newest that was read, and not put together from what was known and one who came. */
  get listedZxid(): number {
    return this.#listedZxid;
  }

  /** Takes in what is agreed on, if it is newer than what is known. */
  agree(agreement: Agreement): void {
    if (this.agreed !== undefined && agreement.mzxid < this.agreed.mzxid) return;
    this.agreed = agreement;
    this.rule = ruleOfAgreement(agreement);
  }

  /** Takes in a listing that was read elsewhere. @param directory absent: nobody read it now */
  merge(listing: readonly Contender[], zxid: number, directory?: Stat): void {
    if (directory !== undefined) this.#readDirectory(directory);
    if (zxid < this.#zxid) return;
    this.#zxid = zxid;
    if (directory !== undefined) this.#listedZxid = zxid;
    const last = listing.at(-1);
    const newer =
      last === undefined || this.rule.isRoom === true
        ? []
        : this.#members.filter(({ sequence }) => sequence > last.sequence);
    const before = this.#members;
    this.#members = [...listing, ...newer];
    if (this.turns !== undefined && lacksSome(this.#members, before)) this.turns.changed();
  }

  /** Takes in one who is known to stand directly behind the last who is known. @param zxid of its creation */
  append(contender: Contender, zxid: number): void {
    this.#members.push(contender);
    this.#zxid = Math.max(this.#zxid, zxid);
  }

  /**
   * Makes sure that the line shows the state at `zxid` or later. Requests that ask at the same time share one listing.
   */
  async refresh(zxid: number, deadline: number): Promise<void> {
    if (this.#zxid >= zxid) return;
    const shared = (listing: Promise<number>): Promise<number> =>
      byDeadline(listing, deadline, 'the listing of the line');
    // One that is under way may have been answered too early for us; the next was asked for after our node existed.
    if (this.#listing !== undefined) await shared(this.#listing);
    while (this.#zxid < zxid) {
      const fresh = this.#listing === undefined;
      const listed = await shared((this.#listing ??= this.list(deadline).finally(() => (this.#listing = undefined))));
      if (listed < zxid && fresh) await this.#control.sync(this.path, deadline);
    }
  }

  /** Reads the line from the control session's server. @returns how new it is */
  async list(deadline: number): Promise<number> {
    this.#metrics.lineListingsTotal.inc({ kind: this.kind });
    try {
      const { children, zxid, stat } = await this.#control.getChildren(this.path, deadline);
      this.merge(sortLine(children), zxid, stat);
      return zxid;
    } catch (error) {
      if (!isReason(error, 'NO_NODE')) throw error;
      this.merge([], error.zxid);
      return error.zxid;
    }
  }

  /** Reads what the directory's data say now. @returns undefined when there is no directory */
  async readDirectory(deadline: number): Promise<LineDirectory | undefined> {
    const [, stat] = await Promise.all([
      this.#control.sync(this.path, deadline),
      this.#control.exists(this.path, deadline),
    ]);
    if (stat === undefined) return undefined;
    this.#readDirectory(stat);
    return this.directory;
  }

  #readDirectory(stat: Stat): void {
    if (this.directory === undefined || stat.mzxid > this.directory.mzxid) this.directory = readLineDirectory(stat);
  }

  /** A transaction has just written that delays are in use, over what `before` says. */
  delaysInUse(before: LineDirectory): void {
    if (this.directory === before) this.directory = { ...before, version: before.version + 1, delays: true };
  }

  /** Whom `contender` waits for; see `LineRule`. */
  blockersOf(contender: Contender): readonly Contender[] {
    return this.rule.blockers(...this.#asItStood(contender));
  }

  /** Whom to ask about, after a wake-up of `contender`, whether they still stand. */
  suspectsOf(contender: Contender): readonly Contender[] {
    return this.rule.suspects(...this.#asItStood(contender));
  }

  /** How many stand before `contender`. */
  indexOf(contender: Contender): number {
    return this.#indexOf(contender);
  }

  /**
   * Counted from the next to be granted, who has 1, if all who are admitted hold; 0 for whose turn has come. Nobody
   * holds in a room.
   */
  positionOf(contender: Contender): number {
    if (this.rule.isRoom === true) return this.#indexOf(contender) + 1;
    return Math.max(0, this.#indexOf(contender) - this.rule.admitted(this.#members) + 1);
  }

  /** The admitted contenders that stand before `contender`. */
  admittedBefore(contender: Contender): readonly Contender[] {
    return this.#members.slice(0, Math.min(this.rule.admitted(this.#members), this.#indexOf(contender)));
  }

  /** The waiting request of this replica that stands directly behind `contender`, where its release admits that one. */
  waiterBehind(contender: Contender): Waiter | undefined {
    if (!this.rule.alone(contender)) return undefined;
    const index = this.#indexOf(contender);
    const next = this.#members[index + 1];
    if (this.#members[index]?.name !== contender.name || next === undefined || !this.rule.alone(next)) return undefined;
    return this.waiters.get(next.name);
  }

  /** `contender` was granted: if it is so alone, whoever the list shows before it is gone. */
  admit(contender: Contender): void {
    if (this.rule.alone(contender)) this.#members.splice(0, this.#indexOf(contender));
  }

  remove(contender: Contender): void {
    const index = this.#indexOf(contender);
    if (this.#members[index]?.name !== contender.name) return;
    this.#members.splice(index, 1);
    this.turns?.changed();
  }

  /**
   * The line with `contender` in it, and where. Others of this replica may have struck it, because its node is gone,
   * before its own request has learned of that; taken for whoever has its index now, a writer would be admitted beside
   * readers.
   */
  #asItStood(contender: Contender): [members: readonly Contender[], index: number] {
    const index = this.#indexOf(contender);
    const stands = this.#members[index]?.name === contender.name;
    return [stands ? this.#members : this.#members.toSpliced(index, 0, contender), index];
  }

  /** Where `contender` stands, or would stand. */
  #indexOf({ name, sequence }: Contender): number {
    let low = 0;
    let high = this.#members.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#members[middle] as Contender).sequence < sequence) low = middle + 1;
      else high = middle;
    }
    // Two nodes of one sequence number exist only where Curator made the second.
    return this.#members[low]?.name !== name && this.#members[low + 1]?.name === name ? low + 1 : low;
  }
}

/** Whether a contender in `before` is missing from `now`. */
function lacksSome(now: readonly Contender[], before: readonly Contender[]): boolean {
  const names = new Set(now.map(({ name }) => name));
  return before.some(({ name }) => !names.has(name));
}

const ORDERS_MAX = 20_000;

/** The lines in use, by path. */
export class Lines {
  readonly #lines = new Map<string, Line>();
  readonly #byPriority = new LruMap<string, true>(ORDERS_MAX);
  readonly #control: ControlSession;
  readonly #metrics: Metrics;

  constructor(control: ControlSession, metrics: Metrics) {
    this.#control = control;
    this.#metrics = metrics;
  }

  /** Lines in use. */
  get size(): number {
    return this.#lines.size;
  }

  /** The line at `path` if a request uses it now. */
  peek(path: string): Line | undefined {
    return this.#lines.get(path);
  }

  /** The line at `path`, shared with everybody who uses it at the same time, until `leave` is called with it. */
  enter(path: string, kind: Kind | typeof ROOM): Line {
    let line = this.#lines.get(path);
    if (line === undefined) this.#lines.set(path, (line = new Line(path, ruleOf(kind), this.#control, this.#metrics)));
    line.users += 1;
    return line;
  }

  leave(line: Line): void {
    line.users -= 1;
    if (line.users > 0) return;
    this.#lines.delete(line.path);
    if (line.directory !== undefined) this.noteOrder(line.path, line.directory);
  }

  /** Remembers in which order the lock at `path` is taken, beyond the use of its line. */
  noteOrder(path: string, { byPriority }: LineDirectory): void {
    if (byPriority) this.#byPriority.set(path, true);
    else this.#byPriority.delete(path);
  }

  /** Whether it was taken by priority when this replica read that last: says no more than what to look at first. */
  wasByPriority(path: string): boolean {
    return this.#byPriority.get(path) === true;
  }
}
