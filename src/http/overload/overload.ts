/**
 * Overload: more requests than the one thread of this process, or the ensemble behind it, can serve.
 *
 * The requests that wait for this process are in no queue that it could inspect: they lie in the kernel until the next
 * turn of the event loop. So the turn is measured. A timer that is due every 20 ms fires once in each turn that takes
 * longer; its lateness is how long a request waits before it is seen. More than `overloadDelayMs` twice in a row is
 * overload (once is a garbage collection). The backlog to ZooKeeper is known: see
 * `zookeeper/connection/backlog-limit.ts`.
 *
 *   calm ──late──▶ overloaded ──a second without lateness and refusals──▶ calm
 *
 * While the event loop is late, each turn admits new work for `overloadDelayMs`, and at least a few requests; new work
 * that comes later in the turn is refused. So turns stay short under any load, and are used up; and once the crowd has
 * gone, a request is served at once, because its turn has just begun. Nothing is forecast, and nothing has to be learnt
 * anew afterwards.
 *
 * New work is everything but the operations that the contract marks with `x-rate-limited: false`; also pages, metrics
 * and unknown paths, since anybody may ask for them, but not probes. Refusing a heartbeat, a release or an
 * acknowledgement would lose or keep a hold, and so make more work.
 */
import type { Socket } from 'node:net';
import type { Config } from '../../config.js';
import type { Logger } from '../../log.js';
import { LATE, type Late, type Metrics } from '../../metrics/metrics.js';
import { SECOND, type Clock } from '../../time.js';
import { RestingConnections } from './resting-connections.js';

/**
 * Requests that every turn admits, however late: a lone request is never refused because others keep this process from
 * its core.
 */
const TAKEN_MIN = 8;
const PROBE_EVERY_MS = 20;
/** One long turn may be slow by itself; the next one shows whether more is waiting. */
const LATE_IN_A_ROW = 2;
/** Longer than the pauses between the crowds of one storm. */
const CALM_AFTER_MS = SECOND;

/** How much this replica may have in flight to ZooKeeper. */
export interface ZooKeeperLimit {
  /** Whether there is a limit now. */
  readonly set: boolean;
  /** Whether there is room for one more request of new work; if so, takes it. */
  admit(): boolean;
  /**
   * Call it often.
   * @param now monotonic
   */
  look(now: number): void;
}

export interface OverloadOptions {
  readonly config: Pick<Config, 'overloadDelayMs'>;
  readonly zooKeeperLimit: ZooKeeperLimit;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
}

export class Overload {
  /** Whether requests may have to be refused. While it is false, requests skip every other check. */
  active = false;
  readonly #options: OverloadOptions;
  readonly #delayMs: number;
  readonly #resting: RestingConnections;
  readonly #probe: NodeJS.Timeout | undefined;
  readonly #since: Partial<Record<Late, number>> = {};
  #probedAt: number;
  #lateInARow = 0;
  /** Until when this turn admits new work, monotonic; undefined before its first request. */
  #takesUntil: number | undefined;
  #taken = 0;
  #lastSignAt = -Infinity;
  #refused = 0;

  constructor(options: OverloadOptions) {
    this.#options = options;
    this.#delayMs = options.config.overloadDelayMs;
    this.#resting = new RestingConnections(this.#delayMs);
    this.#probedAt = options.clock.monotonic();
    if (this.#delayMs > 0) this.#probe = setInterval(() => this.#look(), PROBE_EVERY_MS).unref();
  }

  /**
   * Call it for each request while `active`.
   * @returns what is late, if new work must be refused now
   */
  tooLate(): Late | undefined {
    if (!this.#options.zooKeeperLimit.admit()) return 'zookeeper';
    if (this.#since.event_loop === undefined) return undefined;
    const now = this.#options.clock.monotonic();
    if (this.#takesUntil === undefined) {
      this.#takesUntil = now + this.#delayMs;
      this.#taken = 0;
      // Runs behind everything that has arrived by now: the turn is over.
      setImmediate(() => (this.#takesUntil = undefined));
    }
    if (this.#taken >= TAKEN_MIN && now >= this.#takesUntil) return 'event_loop';
    this.#taken += 1;
    return undefined;
  }

  /** Call it after each refusal has been written. */
  refused(late: Late, socket: Socket): void {
    const now = this.#options.clock.monotonic();
    this.#refused += 1;
    this.#resting.add(socket, now);
    if (late === 'event_loop') this.#lastSignAt = now;
    this.#options.metrics.overloadRefusalsTotal.inc({ late });
  }

  close(): void {
    clearInterval(this.#probe);
    this.#resting.wake(Infinity);
  }

  #look(): void {
    const now = this.#options.clock.monotonic();
    const late = now - this.#probedAt - PROBE_EVERY_MS > this.#delayMs;
    this.#probedAt = now;
    this.#resting.wake(now);
    this.#lateInARow = late ? this.#lateInARow + 1 : 0;
    if (this.#lateInARow >= LATE_IN_A_ROW) this.#lastSignAt = now;
    this.#set('event_loop', now - this.#lastSignAt < CALM_AFTER_MS, now);
    this.#options.zooKeeperLimit.look(now);
    this.#set('zookeeper', this.#options.zooKeeperLimit.set, now);
  }

  #set(late: Late, overloaded: boolean, now: number): void {
    const since = this.#since[late];
    if (overloaded === (since !== undefined)) return;
    const { metrics, logger } = this.#options;
    metrics.overloaded.set({ late }, overloaded ? 1 : 0);
    if (since === undefined) {
      this.#since[late] = now;
      logger.warn({ late, delayMs: this.#delayMs }, 'overloaded: refusing requests');
    } else {
      delete this.#since[late];
      logger.info({ late, forMs: Math.round(now - since), refused: this.#refused }, 'no longer overloaded');
    }
    this.active = LATE.some((one) => this.#since[one] !== undefined);
    if (!this.active) this.#refused = 0;
  }
}
