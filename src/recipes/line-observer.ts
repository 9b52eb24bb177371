/**
 * Watching who holds a name, for long polls and event streams: one observer and one watch per name and replica, however
 * many clients look.
 *
 * Who holds can change only at the head of the line: nobody ever gets in before it. So the watches are on the data of those whom
 * the line admits (they fire when one is granted, changes what it shows, or goes). Only while the line is empty, or all in it share
 * it, is the directory watched too, or for it to appear; where holders share and somebody waits behind them, that one. Otherwise a
 * newcomer at the end wakes nobody.
 *
 * In an election the first in line leads as soon as it is the first; the grant, which tells it so, is a write to its node a moment later.
 * A data watch would make that a second notification for one change. So a new leader is published without a watch, and
 * watched, and read again, once its grant has been written.
 *
 * The first state is read after a `sync`, each later one after the event on the same connection, so an observer never
 * goes back in time.
 */
import { createHash } from 'node:crypto';
import { fullJitter, pause } from '../time.js';
import { unless } from '../zookeeper/errors.js';
import type { Kind } from '../metrics/metrics.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import type { Watch } from '../zookeeper/watch.js';
import { sortLine, type Contender } from './contender.js';
import { describeContender, type ContenderView } from './describe.js';
import { SHOWN } from './line-view.js';
import { decodeAgreement, ruleOfAgreement } from './agreement.js';
import { ruleOf, type LineRule } from './rule.js';

export interface HolderState {
  /** Of a semaphore. */
  limit: number | undefined;
  holders: ContenderView[];
  /** Changes whenever what `holders` shows does, or the limit. */
  etag: string;
}

type Subscriber = (state: HolderState) => void;

const READ_MS = 10_000;
const RETRY_BASE_MS = 20;
const RETRY_CAP_MS = 1_000;
/** A new leader whose client waits has written its grant after the first of these looks, or the next one where everything is slow. */
const SETTLE_MS = 50;
const SETTLE_LOOKS = 5;

export class LineObservers {
  readonly #control: ControlSession;
  readonly #observers = new Map<string, LineObserver>();

  constructor(control: ControlSession) {
    this.#control = control;
  }

  get size(): number {
    return this.#observers.size;
  }

  /** Calls `subscriber` with the state as soon as it is known, and with every change, until the returned function is called. */
  subscribe(kind: Kind, directory: string, subscriber: Subscriber): () => void {
    let observer = this.#observers.get(directory);
    if (observer === undefined) {
      observer = new LineObserver(this.#control, kind, directory);
      this.#observers.set(directory, observer);
    }
    const subscribed = observer;
    subscribed.add(subscriber);
    return () => {
      if (!subscribed.remove(subscriber)) return;
      if (this.#observers.get(directory) === subscribed) this.#observers.delete(directory);
    };
  }

  /** Resolves with the first state whose etag is not known, or undefined at the deadline or when the signal is aborted. */
  changed(
    kind: Kind,
    directory: string,
    isKnown: (etag: string) => boolean,
    deadline: number,
    signal: AbortSignal,
  ): Promise<HolderState | undefined> {
    return new Promise((resolve) => {
      const finish = (state: HolderState | undefined): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', onAbort);
        // The first call may come before `subscribe` has returned.
        queueMicrotask(() => unsubscribe());
        resolve(state);
      };
      const onAbort = (): void => finish(undefined);
      const timer = setTimeout(() => finish(undefined), Math.max(0, deadline - performance.now()));
      signal.addEventListener('abort', onAbort, { once: true });
      const unsubscribe = this.subscribe(kind, directory, (state) => {
        if (!isKnown(state.etag)) finish(state);
      });
      if (signal.aborted) onAbort();
    });
  }
}

class LineObserver {
  readonly #control: ControlSession;
  readonly #directory: string;
  readonly #kind: Kind;
  readonly #subscribers = new Set<Subscriber>();
  readonly #stop = new AbortController();
  #state: HolderState | undefined;

  constructor(control: ControlSession, kind: Kind, directory: string) {
    this.#control = control;
    this.#directory = directory;
    this.#kind = kind;
    void this.#run();
  }

  add(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber);
    if (this.#state !== undefined) subscriber(this.#state);
  }

  /** @returns whether it was the last one, and the observer has stopped */
  remove(subscriber: Subscriber): boolean {
    this.#subscribers.delete(subscriber);
    if (this.#subscribers.size > 0) return false;
    this.#stop.abort();
    return true;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    let synced = false;
    while (!signal.aborted) {
      try {
        if (!synced) await this.#control.sync(this.#directory, performance.now() + READ_MS);
        synced = true;
        await this.#look(signal);
        failures = 0;
      } catch {
        // No connection: what is shown stays until there is one again.
        synced = false;
        failures += 1;
        await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS), signal);
      }
    }
  }

  /** Reads and publishes the state, and returns when it may have changed. */
  async #look(signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + READ_MS;
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    const set: Watch[] = [];
    const keep = (watch: Watch | undefined): void => void (watch !== undefined && set.push(watch));
    const cancel = (): void => set.forEach((watch) => watch.cancel());
    try {
      const rule = await this.#readRule(wake, keep, deadline);
      if (rule.leads && this.#state !== undefined) await this.#settle(signal, deadline);
      const holders = await this.#read(rule, wake, keep, deadline);
      if (holders === undefined) return cancel(); // it changed in between: look again
      this.#publish(holders, rule.limit);
      await this.#until(woken, signal);
    } finally {
      cancel();
    }
  }

  /** That of a semaphore may change: it is watched too. (Where there is no directory, its appearance is.) */
  async #readRule(wake: () => void, keep: (watch: Watch | undefined) => void, deadline: number): Promise<LineRule> {
    if (this.#kind !== 'semaphore') return ruleOf(this.#kind);
    const { value, watch } = await this.#control.watches.getData(this.#directory, wake, deadline);
    keep(watch);
    return ruleOfAgreement(value === undefined ? undefined : decodeAgreement(value));
  }

  /** Publishes who leads now, before anything is watched, until that one has been granted, or nobody seems to wait for it. */
  async #settle(signal: AbortSignal, deadline: number): Promise<void> {
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
  async #read(
    rule: LineRule,
    wake: () => void,
    keep: (watch: Watch | undefined) => void,
    deadline: number,
  ): Promise<ContenderView[] | undefined> {
    const { watches } = this.#control;
    const listing = await unless(this.#control.getChildren(this.#directory, deadline), 'NO_NODE');
    const line = sortLine(listing?.children ?? []);
    const admitted = rule.holding(line);
    const first = line.slice(0, Math.min(admitted, SHOWN));
    const next = line[admitted];
    const head = line[0];
    // Where holders share, somebody may join them, or the one behind them may give up and let others in.
    if (head === undefined || !rule.alone(head)) {
      if (next === undefined) {
        if (!(await this.#watchNewcomers(line, wake, keep, deadline))) return undefined;
      } else {
        const { value, watch } = await watches.getChildren(`${this.#directory}/${next.name}`, wake, deadline);
        keep(watch);
        if (value === undefined) return undefined;
      }
    }
    const read = await Promise.all(
      first.map(async ({ name }) => {
        const { value, watch } = await watches.getData(`${this.#directory}/${name}`, wake, deadline);
        keep(watch);
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
  async #watchNewcomers(
    line: readonly Contender[],
    wake: () => void,
    keep: (watch: Watch | undefined) => void,
    deadline: number,
  ): Promise<boolean> {
    const { watches } = this.#control;
    const children = await watches.getChildren(this.#directory, wake, deadline);
    keep(children.watch);
    if (children.value !== undefined) {
      const now = sortLine(children.value.children);
      return now.length === line.length && now.every(({ name }, i) => name === line[i]?.name);
    }
    const absent = await watches.exists(this.#directory, wake, deadline);
    keep(absent.watch);
    return absent.value === undefined && line.length === 0;
  }

  async #until(woken: Promise<void>, signal: AbortSignal): Promise<void> {
    let stopped = (): void => undefined;
    const aborted = new Promise<void>((resolve) => (stopped = resolve));
    signal.addEventListener('abort', stopped, { once: true });
    await Promise.race([woken, aborted]);
    signal.removeEventListener('abort', stopped);
  }

  #publish(holders: ContenderView[], limit: number | undefined): void {
    const etag = etagOf(holders, limit);
    if (etag === this.#state?.etag) return;
    this.#state = { limit, holders, etag };
    for (const subscriber of [...this.#subscribers]) subscriber(this.#state);
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
