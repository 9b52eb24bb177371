/**
 * Observes who holds a name, for long polls and event streams (`observing/observers.ts`).
 *
 * The holders can change only at the head of the line: nobody ever gets in before it. So the watches are on the data of
 * the contenders that the line admits (they fire when one is granted, changes what it shows, or goes). Only while the
 * line is empty, or all in it share it, is the directory watched too, or for it to appear; where holders share and
 * somebody waits behind them, that one. Otherwise a newcomer at the end wakes nobody.
 *
 * In an election the first in line leads as soon as it is the first; the grant, which tells it so, is a write to its
 * node a moment later. A data watch would make that a second notification for one change. So a new leader is published
 * without a watch, and watched, and read again, once its grant has been written.
 */
import { createHash } from 'node:crypto';
import { pause } from '../../time.js';
import { unless } from '../../zookeeper/errors.js';
import type { Listing } from '../../zookeeper/operations.js';
import { allWatched } from '../../zookeeper/watch.js';
import type { Kind } from '../../metrics/metrics.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { shownLine, sortLine, type Contender } from './contender.js';
import { delayBeside, type DelayContext } from './delay/lock-delay.js';
import { jsonOf } from '../../json-text.js';
import { describeContender, type ContenderView } from './describe.js';
import { readLineDirectory } from './directory.js';
import { SHOWN } from './view.js';
import { Observers, type Look, type LookResult } from '../observing/observers.js';
import { decodeAgreement, ruleOfAgreement } from './permits/agreement.js';
import { ruleOf, type LineRule } from './rule.js';

export interface HolderState {
  /** Semaphores only. */
  limit: number | undefined;
  holders: ContenderView[];
  /** Changes whenever what `holders` shows does, or the limit. */
  etag: string;
}

/**
 * A new leader whose client waits has written its grant after the first of these looks, or the next one where
 * everything is slow.
 */
const SETTLE_MS = 50;
const SETTLE_LOOKS = 5;

export interface LineSubject {
  kind: Kind;
  /** Of its directory. */
  path: string;
}

export type HolderObservers = Observers<LineSubject, HolderState>;

/** Of all lines of one replica. */
export function lineObservers(context: DelayContext): HolderObservers {
  return new Observers(context.control, (line, look) => new LineLook(context, line, look).run());
}

class LineLook {
  readonly #context: DelayContext;
  readonly #control: ControlSession;
  readonly #directory: string;
  readonly #kind: Kind;
  readonly #look: Look<HolderState>;
  /** Semaphores only: there was no directory when the rule was read, so its data are not watched. */
  #ruleUnwatched = false;

  constructor(context: DelayContext, { kind, path }: LineSubject, look: Look<HolderState>) {
    this.#context = context;
    this.#control = context.control;
    this.#directory = path;
    this.#kind = kind;
    this.#look = look;
  }

  async run(): Promise<LookResult> {
    const rule = await this.#readRule();
    if (rule.leads && this.#look.known !== undefined) await this.#settle();
    const holders = await this.#read(rule);
    if (holders === undefined) return 'again';
    this.#publish(holders, rule.limit);
    return 'wait';
  }

  /** That of a semaphore may change: it is watched too. (Where there is no directory, its appearance is.) */
  async #readRule(): Promise<LineRule> {
    if (this.#kind !== 'semaphore') return ruleOf(this.#kind);
    const { wake, deadline } = this.#look;
    const { value, watch } = await this.#control.watches.getData(this.#directory, wake, deadline);
    this.#look.keep(watch);
    this.#ruleUnwatched = value === undefined;
    return ruleOfAgreement(value === undefined ? undefined : decodeAgreement(value));
  }

  /**
   * Publishes who leads now, before anything is watched, until that one has been granted, or nobody seems to wait for
   * it.
   */
  async #settle(): Promise<void> {
    const { signal, deadline } = this.#look;
    for (let look = 0; look < SETTLE_LOOKS && !signal.aborted; look += 1) {
      const listing = await unless(this.#control.getChildren(this.#directory, deadline), 'NO_NODE');
      const head = sortLine(listing?.children ?? [])[0];
      if (head === undefined) return;
      const node = await unless(this.#control.getData(`${this.#directory}/${head.name}`, deadline), 'NO_NODE');
      if (node === undefined) return;
      const leader = describeContender(head, node);
      this.#publish([leader], undefined);
      if (leader.state === 'granted') return;
      await pause(SETTLE_MS, signal);
    }
  }

  /** Reads who holds, and watches everything that can change it. @returns undefined when it changed meanwhile */
  async #read(rule: LineRule): Promise<ContenderView[] | undefined> {
    const { watches } = this.#control;
    const { wake, deadline } = this.#look;
    const listing = await unless(this.#control.getChildren(this.#directory, deadline), 'NO_NODE');
    if (listing !== undefined && this.#ruleUnwatched) return undefined;
    const line = shownLine(listing?.children ?? []);
    const admitted = rule.holding(line);
    const first = line.slice(0, Math.min(admitted, SHOWN));
    const next = line[admitted];
    const head = line[0];
    // Where holders share, somebody may join them, or the one behind them may give up and let others in.
    if (head === undefined || !rule.alone(head)) {
      if (next === undefined) {
        if (!(await this.#watchNewcomers(line))) return undefined;
      } else {
        const { value, watch } = await watches.getChildren(`${this.#directory}/${next.name}`, wake, deadline);
        this.#look.keep(watch);
        if (value === undefined) return undefined;
      }
    }
    const read = await allWatched(
      first.map(async (contender) => {
        const { value, watch } = await watches.getData(`${this.#directory}/${contender.name}`, wake, deadline);
        this.#look.keep(watch);
        return value === undefined ? undefined : describeContender(contender, value);
      }),
    );
    const views = read.filter((view) => view !== undefined);
    if (views.length < first.length) return undefined;
    if (rule.leads || listing === undefined) return views;
    const holders = views.filter(({ state }) => state === 'granted');
    return (await this.#isExcluded(holders, line, listing)) ? holders.filter(({ external }) => external) : holders;
  }

  /** Whether a lock-delay runs beside which it does not count that they say `granted`. Its end is waited for. */
  async #isExcluded(
    holders: readonly ContenderView[],
    line: readonly Contender[],
    { stat, zxid }: Listing,
  ): Promise<boolean> {
    if (holders.length === 0 || !readLineDirectory(stat).delays) return false;
    const { wake, deadline } = this.#look;
    const locked = await delayBeside(this.#context, this.#context.control.until(deadline), this.#directory, line, zxid);
    if (locked === undefined) return false;
    const ms = Math.max(1, Math.ceil(locked.lockedUntil - this.#context.zooKeeperClock.now()));
    const timer = setTimeout(wake, ms);
    this.#look.keep({ cancel: () => clearTimeout(timer) });
    return true;
  }

  /** Watches the directory, or for it to appear. @returns false when it does not show `line` any more */
  async #watchNewcomers(line: readonly Contender[]): Promise<boolean> {
    const { watches } = this.#control;
    const { wake, deadline } = this.#look;
    const children = await watches.getChildren(this.#directory, wake, deadline);
    this.#look.keep(children.watch);
    if (children.value !== undefined) {
      if (this.#ruleUnwatched) return false; // made since, with a limit that nobody has read
      const now = shownLine(children.value.children);
      return now.length === line.length && now.every(({ name }, i) => name === line[i]?.name);
    }
    const absent = await watches.exists(this.#directory, wake, deadline);
    this.#look.keep(absent.watch);
    return absent.value === undefined && line.length === 0;
  }

  #publish(holders: ContenderView[], limit: number | undefined): void {
    this.#look.publish({ limit, holders, etag: etagOf(holders, limit) });
  }
}

/**
 * Covers the holders and what they show, and the limit of a semaphore; not those who wait. Of a leader not since when:
 * that changes when it is told.
 */
export function etagOf(holders: readonly ContenderView[], limit?: number): string {
  const shown = holders.map(({ holdId, label, data, since, acknowledged, reservation }) => [
    holdId,
    label,
    data,
    acknowledged ?? since,
    // Nothing where there is none: the ETags of all others stay as they are.
    ...(reservation === undefined ? [] : [reservation.until ?? null]),
  ]);
  return `"${createHash('sha256')
    .update(jsonOf(limit === undefined ? shown : [limit, shown]))
    .digest('base64url')
    .slice(0, 22)}"`;
}
