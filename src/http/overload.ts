/**
 * Overload: more requests than the one thread of this process, or the ensemble behind it, can serve.
 *
 * What waits for this process is in no queue that could be looked at: it lies in the kernel and is read at the next turn of the event loop. So the
 * turn is what is measured. A timer that is due every 20 ms fires once in each turn that takes longer; how late it is, is how long a request waits
 * before anybody sees it. More than `overloadDelayMs` twice in a row is overload (once is a collection of garbage). What waits for ZooKeeper
 * is known: see `zookeeper/backlog-limit.ts`.
 *
 *   calm ──late──▶ overloaded ──a second without lateness and refusals──▶ calm
 *
 * While the event loop is late, each turn takes on new work for as long as `overloadDelayMs`, and a few requests at least; what is new and comes later
 * in the turn is refused. So a turn stays short however much comes, and is used up; and who comes when the crowd has gone is served at once,
 * because his turn has just begun. Nothing is forecast, and nothing has to be learnt anew when it is over.
 *
 * New is what takes on something: all operations but those that the contract marks with `x-rate-limited: false`, and those without
 * credentials. To refuse a heartbeat, a release or an acknowledgement would lose a hold or keep it, and so make more work.
 */
import type { Socket } from 'node:net';
import type { Config } from '../config.js';
import type { Logger } from '../log.js';
import { LATE, type Late, type Metrics } from '../metrics/metrics.js';
import { SECOND, type Clock } from '../time.js';
import { RestingConnections } from './resting-connections.js';

/** Requests that a turn takes on whatever the time: who comes alone is never refused, though others keep this process from its core. */
const TAKEN_MIN = 8;
const PROBE_EVERY_MS = 20;
/** After a turn that took long by itself, the next one shows whether more is waiting. */
const LATE_IN_A_ROW = 2;
/** Longer than the pauses between the crowds of one storm. */
const CALM_AFTER_MS = SECOND;

/** How much this replica may ask of ZooKeeper at once. */
export interface ZooKeeperLimit {
  /** Whether there is a limit now. */
  readonly set: boolean;
  /** Whether there is room for one more request of new work, which then has it. */
  admit(): boolean;
  /** To be called often. @param now monotonic */
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
  /** Whether requests may have to be refused. While it is false nothing else is asked of a request. */
  active = false;
  readonly #options: OverloadOptions;
  readonly #delayMs: number;
  readonly #resting: RestingConnections;
  readonly #probe: NodeJS.Timeout | undefined;
  readonly #since: Partial<Record<Late, number>> = {};
  #probedAt: number;
  #lateInARow = 0;
  /** Until when this turn takes on new work, monotonic; undefined before its first request. */
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

  /** To be asked while `active`, of each request. @returns what is late, if new work has to be refused now */
  tooLate(): Late | undefined {
    if (!this.#options.zooKeeperLimit.admit()) return 'zookeeper';
    if (this.#since.event_loop === undefined) return undefined;
    const now = this.#options.clock.monotonic();
    if (this.#takesUntil === undefined) {
      this.#takesUntil = now + this.#delayMs;
      this.#taken = 0;
      // Behind everything that has come by now: the turn is over.
      setImmediate(() => (this.#takesUntil = undefined));
    }
    if (this.#taken >= TAKEN_MIN && now >= this.#takesUntil) return 'event_loop';
    this.#taken += 1;
    return undefined;
  }

  /** To be told of each refusal, when it has been written. */
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
      logger.warn({ late, delayMs: this.#delayMs }, 'overloaded: new requests that there is no time for are refused');
    } else {
      delete this.#since[late];
      logger.info({ late, forMs: Math.round(now - since), refused: this.#refused }, 'no longer overloaded');
    }
    this.active = LATE.some((one) => this.#since[one] !== undefined);
    if (!this.active) this.#refused = 0;
  }
}
