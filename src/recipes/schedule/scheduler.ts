/**
 * The replica that fires: the one whose control session owns `<root>/scheduler`. The others watch that node, and take
 * over when it goes with its session, at once if the replica shuts down. While there is no schedule nobody is elected,
 * and each replica has one watch.
 *
 *   no schedule ──the first one is made──▶ stands ──created──▶ fires ──session replaced, by somebody else──┐
 *                                           ▲  └─there is one─▶ watches it                                 │
 *                                           └──────────────────────┴───────────────────────────────────────┘
 *
 * That there is one is for efficiency only: two that fire do the same steps, of which ZooKeeper does each once
 * (`firing.ts`).
 */
import { SECOND } from '../../time.js';
import { NoReplyError, unless } from '../../zookeeper/errors.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import type { Watch, Watched } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { takeOffice } from '../housekeeping/office.js';
import { ifKnown } from '../known-record.js';
import { keepLooking } from '../observing/keep-looking.js';
import { lookAtTree, type TreeReading } from '../observing/looks.js';
import { Agenda } from './agenda.js';
import type { Firing } from './firing.js';
import { parseSchedule, type ScheduleRef } from './schedule.js';

const REQUEST_MS = 10 * SECOND;
/** It is looked at again, some seconds apart. */
const NOT_OPEN = new Error('its namespace is closed, or lies on another ensemble');

/** Of one replica. */
export class Scheduler {
  readonly #context: Coordination;
  readonly #firing: Firing;
  readonly #onFault: (error: unknown) => void;
  readonly #stop = new AbortController();

  constructor(context: Coordination, firing: Firing, onFault: (error: unknown) => void) {
    this.#context = context;
    this.#firing = firing;
    this.#onFault = onFault;
  }

  start(): void {
    void keepLooking(
      this.#stop.signal,
      (signal) => this.#look(signal),
      (error) => this.#onFault(error),
    );
  }

  /** Fires nothing more, and lets another replica take over. */
  stop(): void {
    this.#stop.abort();
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { control, layout } = this.#context;
    const { watches } = control;
    const deadline = performance.now() + REQUEST_MS;
    if ((await control.exists(layout.schedules, deadline)) === undefined)
      return untilChanged(signal, (wake) => watches.exists(layout.schedules, wake, deadline), isAbsent);
    if (await this.#stands(deadline)) return this.#lead(signal);
    await untilChanged(signal, (wake) => watches.exists(layout.scheduler, wake, deadline), isPresent);
  }

  #stands(deadline: number): Promise<boolean> {
    const { control, layout } = this.#context;
    return takeOffice(control.until(deadline), layout.scheduler, control.sessionId);
  }

  /** Fires until this replica stops, or finds that another one does. */
  async #lead(stop: AbortSignal): Promise<void> {
    const { control, layout, zooKeeperClock, metrics, isOpen } = this.#context;
    const agenda = new Agenda(
      zooKeeperClock,
      (ref) => (isOpen(ref.namespace) ? this.#firing.fire(ref) : Promise.reject(NOT_OPEN)),
      (error) => void (error === NOT_OPEN || error instanceof NoReplyError || this.#onFault(error)),
    );
    const over = new AbortController();
    const end = (): void => over.abort();
    stop.addEventListener('abort', end, { once: true });
    if (stop.aborted) end();
    const kept: Pick<Watch, 'cancel'>[] = [];
    const look = {
      keep: (watch: Pick<Watch, 'cancel'> | undefined) => void (watch !== undefined && kept.push(watch)),
      deadline: performance.now() + REQUEST_MS,
      signal: over.signal,
    };
    try {
      await lookAtTree(control, layout.schedules, look, async (reading) => {
        // Everything is read again after a reconnection: in another session, too.
        if (reading.changed === undefined && !(await this.#stands(reading.zk.deadline))) return end();
        await this.#read(agenda, reading);
        metrics.schedules.set(agenda.size);
        if (!over.signal.aborted) agenda.look();
      });
    } finally {
      stop.removeEventListener('abort', end);
      agenda.close();
      metrics.schedules.set(0);
      for (const watch of kept) watch.cancel();
      if (stop.aborted) await this.#resign();
    }
  }

  async #read(agenda: Agenda, { changed, zk }: TreeReading): Promise<void> {
    const refs = changed === undefined ? await this.#all(zk) : changed.flatMap((path) => this.#refOf(path) ?? []);
    const { largeReads } = this.#context.control;
    const paths = refs.map(({ path }) => path);
    const found = await readOfMany(zk, largeReads, paths, ({ data, stat }, i) => {
      const record = ifKnown(() => parseSchedule((refs[i] as ScheduleRef).name, data));
      // What it pushes is read when it is due.
      return record === undefined ? undefined : { stat, record: { dueAt: record.dueAt } };
    });
    if (changed === undefined) agenda.keepOnly(new Set(paths));
    for (const [i, ref] of refs.entries()) agenda.learn(ref, found[i]);
  }

  /** All namespaces at once: one after the other, thousands of them take longer than a reading may. */
  async #all(zk: BoundClient): Promise<ScheduleRef[]> {
    const { layout } = this.#context;
    const namespaces = await zk.children(layout.schedules);
    const names = await Promise.all(namespaces.map((namespace) => zk.children(layout.schedulesOf(namespace))));
    return namespaces.flatMap((namespace, i) =>
      (names[i] ?? []).map((name) => ({ namespace, name, path: layout.schedule(namespace, name) })),
    );
  }

  /** @returns undefined for a directory */
  #refOf(path: string): ScheduleRef | undefined {
    const [namespace, name] = path.slice(this.#context.layout.schedules.length + 1).split('/');
    return namespace === undefined || name === undefined ? undefined : { namespace, name, path };
  }

  /** So that nobody waits for this session to end. */
  async #resign(): Promise<void> {
    const { control, layout } = this.#context;
    const zk = control.until(performance.now() + REQUEST_MS);
    const owner = await zk.exists(layout.scheduler);
    if (owner?.ephemeralOwner !== control.sessionId) return;
    await unless(zk.remove(layout.scheduler, owner.version), 'NO_NODE', 'BAD_VERSION');
  }
}

const isAbsent = (value: unknown): boolean => value === undefined;
const isPresent = (value: unknown): boolean => value !== undefined;

/** Waits for an event, unless things have changed before they were watched. */
async function untilChanged<T>(
  signal: AbortSignal,
  watching: (wake: () => void) => Promise<Watched<T>>,
  isAsExpected: (value: T | undefined) => boolean,
): Promise<void> {
  let wake = (): void => undefined;
  const woken = new Promise<void>((resolve) => (wake = resolve));
  signal.addEventListener('abort', wake, { once: true });
  const { value, watch } = await watching(wake);
  try {
    if (!signal.aborted && isAsExpected(value)) await woken;
  } finally {
    signal.removeEventListener('abort', wake);
    watch?.cancel();
  }
}
