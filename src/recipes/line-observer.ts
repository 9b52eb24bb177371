/**
 * Watching who holds a name, for long polls and event streams (`observers.ts`).
 *
 * Who holds can change only at the head of the line: nobody ever gets in before it. So the watches are on the data of those whom
 * the line admits (they fire when one is granted, changes what it shows, or goes). Only while the line is empty, or all in it share
 * it, is the directory watched too, or for it to appear; where holders share and somebody waits behind them, that one. Otherwise a
 * newcomer at the end wakes nobody.
 *
 * In an election the first in line leads as soon as it is the first; the grant, which tells it so, is a write to its node a moment later.
 * A data watch would make that a second notification for one change. So a new leader is published without a watch, and
 * watched, and read again, once its grant has been written.
 */
import { createHash } from 'node:crypto';
import { pause } from '../time.js';
import { unless } from '../zookeeper/errors.js';
import type { Kind } from '../metrics/metrics.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { shownLine, sortLine, type Contender } from './contender.js';
import { describeContender, type ContenderView } from './describe.js';
import { SHOWN } from './line-view.js';
import { Observers, type Look, type LookResult } from './observers.js';
import { decodeAgreement, ruleOfAgreement } from './agreement.js';
import { ruleOf, type LineRule } from './rule.js';

export interface HolderState {
  /** Of a semaphore. */
  limit: number | undefined;
  holders: ContenderView[];
  /** Changes whenever what `holders` shows does, or the limit. */
  etag: string;
}

/** A new leader whose client waits has written its grant after the first of these looks, or the next one where everything is slow. */
const SETTLE_MS = 50;
const SETTLE_LOOKS = 5;

/** Of all lines of one replica. */
export class LineObservers {
  readonly #observers: Observers<Kind, HolderState>;

  constructor(control: ControlSession) {
    this.#observers = new Observers(control, (directory, kind, look) =>
      new LineLook(control, directory, kind, look).run(),
    );
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the state as soon as it is known, and with every change, until the returned function is called. */
  subscribe(kind: Kind, directory: string, subscriber: (state: HolderState) => void): () => void {
    return this.#observers.subscribe(directory, kind, subscriber);
  }

  /** Resolves with the first state whose etag is not known, or undefined at the deadline or when the signal is aborted. */
  changed(
    kind: Kind,
    directory: string,
    isKnown: (etag: string) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<HolderState | undefined> {
    return this.#observers.until(directory, kind, ({ etag }) => !isKnown(etag), deadline, signal);
  }
}

class LineLook {
  readonly #control: ControlSession;
  readonly #directory: string;
  readonly #kind: Kind;
  readonly #look: Look<HolderState>;

  constructor(control: ControlSession, directory: string, kind: Kind, look: Look<HolderState>) {
    this.#control = control;
    this.#directory = directory;
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
    return ruleOfAgreement(value === undefined ? undefined : decodeAgreement(value));
  }

  /** Publishes who leads now, before anything is watched, until that one has been granted, or nobody seems to wait for it. */
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
    const read = await Promise.all(
      first.map(async ({ name }) => {
        const { value, watch } = await watches.getData(`${this.#directory}/${name}`, wake, deadline);
        this.#look.keep(watch);
        return value;
      }),
    );
    const views: ContenderView[] = [];
    for (const [i, node] of read.entries()) {
      if (node === undefined) return undefined;
      views.push(describeContender(first[i] as Contender, node));
    }
    return rule.leads ? views : views.filter(({ state }) => state === 'granted');
  }

  /** Watches the directory, or for it to appear. @returns false when it does not show `line` any more */
  async #watchNewcomers(line: readonly Contender[]): Promise<boolean> {
    const { watches } = this.#control;
    const { wake, deadline } = this.#look;
    const children = await watches.getChildren(this.#directory, wake, deadline);
    this.#look.keep(children.watch);
    if (children.value !== undefined) {
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

/** Covers the holders and what they show, and the limit of a semaphore; not those who wait. Of a leader not since when: that changes when it is told. */
export function etagOf(holders: readonly ContenderView[], limit?: number): string {
  const shown = holders.map(({ holdId, label, data, since, acknowledged }) => [
    holdId,
    label,
    data,
    acknowledged ?? since,
  ]);
  return `"${createHash('sha256')
    .update(JSON.stringify(limit === undefined ? shown : [limit, shown]))
    .digest('base64url')
    .slice(0, 22)}"`;
}
