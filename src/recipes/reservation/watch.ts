/**
 * The watch that every replica keeps on the reservations, and its timers: so each is freed on time whichever replica
 * made it, as long as one lives (protocol C57).
 *
 *   one recursive watch ──record made or changed──▶ read it ──stands──▶ a timer ──at its end──▶ free it
 *                                                          └──wanted──▶ every two seconds: does its lease live?
 *
 * Cost: one watch per replica, and one reading per replica for each record that is made or changed. All replicas try to
 * free, spread over some milliseconds: the first one succeeds, and the deletion stops the timers of the others. As long
 * as some are wanted, their leases are looked at all together, in one request.
 */
import { MINUTE, SECOND } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { NoReplyError, zooKeeperReason } from '../../zookeeper/errors.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import type { Watch } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { keepLooking, RETRY_CAP_MS } from '../observing/keep-looking.js';
import { lookAtTree, type TreeReading } from '../observing/looks.js';
import { ifKnown } from '../known-record.js';
import { freeIfDue } from './free.js';
import { decodeReservation, isStanding } from './reservation.js';

const REQUEST_MS = 5 * SECOND;
const SPREAD_MS = 50;
/** The clocks of leaders differ: a timer looks again at least this often. */
const LOOK_MS = MINUTE;
/** How often the leases of those that are wanted are looked at; they say themselves when they are over. */
const LIVES_EVERY_MS = 2 * SECOND;
const READ_AT_ONCE = 128;

interface Known {
  namespace: string;
  id: string;
  /** Undefined while it is wanted. */
  until: number | undefined;
  /** The node of its lease. */
  lease: string;
  timer?: NodeJS.Timeout | undefined;
}

export class ReservationWatch {
  readonly #context: Coordination;
  readonly #onFault: (error: unknown) => void;
  readonly #stop = new AbortController();
  /** By path. */
  readonly #known = new Map<string, Known>();
  #lives: NodeJS.Timeout | undefined;

  constructor(context: Coordination, onFault: (error: unknown) => void) {
    this.#context = context;
    this.#onFault = onFault;
  }

  /** Those that stand, as far as this replica knows. */
  get size(): number {
    let standing = 0;
    for (const { until } of this.#known.values()) if (until !== undefined) standing += 1;
    return standing;
  }

  start(): void {
    const look = (signal: AbortSignal): Promise<void> => this.#look(signal);
    void keepLooking(this.#stop.signal, look, (error) => this.#onFault(error));
  }

  stop(): void {
    this.#stop.abort();
    clearTimeout(this.#lives);
    for (const path of [...this.#known.keys()]) this.#forget(path);
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { control, layout } = this.#context;
    const kept: (Pick<Watch, 'cancel'> | undefined)[] = [];
    const keep = (watch: Pick<Watch, 'cancel'> | undefined): void => void kept.push(watch);
    const deadline = performance.now() + REQUEST_MS;
    try {
      await lookAtTree(control, layout.reservations, { keep, deadline, signal }, (reading) => this.#read(reading));
    } finally {
      for (const watch of kept) watch?.cancel();
    }
  }

  async #read({ changed, zk }: TreeReading): Promise<void> {
    const { reservations } = this.#context.layout;
    const paths = changed?.filter((path) => parentOf(parentOf(path)) === reservations) ?? (await this.#all(zk));
    for (let i = 0; i < paths.length; i += READ_AT_ONCE) {
      const batch = paths.slice(i, i + READ_AT_ONCE);
      const { results } = await zk.multiRead(batch.map((path) => ({ type: 'getData', path })));
      for (const [k, result] of results.entries())
        this.#take(batch[k] as string, 'data' in result ? result.data : undefined);
    }
    this.#context.metrics.reservations.set(this.size);
  }

  /** @returns the paths of all, once those that are gone are forgotten */
  async #all(zk: BoundClient): Promise<string[]> {
    const { layout } = this.#context;
    const namespaces = await zk.children(layout.reservations);
    const ids = await Promise.all(namespaces.map((namespace) => zk.children(layout.reservationsOf(namespace))));
    const paths = namespaces.flatMap((namespace, i) => (ids[i] ?? []).map((id) => layout.reservation(namespace, id)));
    const there = new Set(paths);
    for (const path of [...this.#known.keys()]) if (!there.has(path)) this.#forget(path);
    return paths;
  }

  #take(path: string, data: Buffer | undefined): void {
    this.#forget(path);
    const record = data === undefined ? undefined : ifKnown(() => decodeReservation(data));
    if (record === undefined || this.#stop.signal.aborted) return;
    const [namespace, id] = [baseName(parentOf(path)), baseName(path)];
    const lease = this.#context.layout.lease(namespace, record.leaseId);
    const known: Known = { namespace, id, until: record.standing?.until, lease };
    this.#known.set(path, known);
    if (isStanding(record)) this.#schedule(path, known, record.standing.until - this.#context.zooKeeperClock.now());
    else this.#lives ??= setTimeout(() => void this.#lookAtLives(), LIVES_EVERY_MS + Math.random() * SPREAD_MS);
  }

  #schedule(path: string, known: Known, ms: number): void {
    if (this.#known.get(path) !== known || this.#stop.signal.aborted) return;
    const wait = Math.min(LOOK_MS, Math.max(0, ms)) + Math.random() * SPREAD_MS;
    known.timer = setTimeout(() => void this.#free(path, known), wait);
  }

  async #free(path: string, known: Known): Promise<void> {
    try {
      const wait = await freeIfDue(this.#context, known.namespace, known.id, performance.now() + REQUEST_MS);
      if (wait !== undefined && wait !== Infinity) this.#schedule(path, known, wait);
    } catch (error) {
      if (!(error instanceof NoReplyError)) this.#onFault(error);
      this.#schedule(path, known, RETRY_CAP_MS);
    }
  }

  /** Removes those that are wanted by nobody any more. */
  async #lookAtLives(): Promise<void> {
    const wanted = [...this.#known.values()].filter(({ until }) => until === undefined);
    try {
      const zk = this.#context.control.until(performance.now() + REQUEST_MS);
      for (let i = 0; i < wanted.length; i += READ_AT_ONCE) {
        const batch = wanted.slice(i, i + READ_AT_ONCE);
        // Their children, of which they have none: their data would be long.
        const { results } = await zk.multiRead(batch.map(({ lease: path }) => ({ type: 'getChildren', path })));
        for (const [k, { namespace, id }] of batch.entries()) {
          const result = results[k];
          const isGone = result !== undefined && 'error' in result && zooKeeperReason(result.error) === 'NO_NODE';
          if (isGone) await freeIfDue(this.#context, namespace, id, zk.deadline);
        }
      }
    } catch (error) {
      if (!(error instanceof NoReplyError)) this.#onFault(error);
    }
    this.#lives = undefined;
    const isWaiting = [...this.#known.values()].some(({ until }) => until === undefined);
    if (isWaiting && !this.#stop.signal.aborted)
      this.#lives = setTimeout(() => void this.#lookAtLives(), LIVES_EVERY_MS + Math.random() * SPREAD_MS);
  }

  #forget(path: string): void {
    clearTimeout(this.#known.get(path)?.timer);
    this.#known.delete(path);
  }
}
