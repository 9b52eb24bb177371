/**
 * The session timeouts that the ensemble allows: by default 2 to 20 of its ticks. ZooKeeper's protocol cannot be asked
 * for them, so they are found out once, by asking for too little and for too much.
 */
import { InvalidError } from '../errors.js';
import { NoReplyError, SessionTimeoutError } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { AttachedSessions } from './attached-sessions.js';

export const DEFAULT_TTL_MS = 30_000;
const TOO_LITTLE_MS = 1;
const TOO_MUCH_MS = 2 ** 31 - 1;

export interface Bounds {
  minTtlMs: number;
  maxTtlMs: number;
}

export class SessionBounds {
  readonly #sessions: AttachedSessions;
  #known: Bounds | undefined;
  #asking: Promise<Bounds> | undefined;

  constructor(sessions: AttachedSessions) {
    this.#sessions = sessions;
  }

  /** The bounds, if they are known already. */
  get known(): Bounds | undefined {
    return this.#known;
  }

  read(deadline: number): Promise<Bounds> {
    return this.#known === undefined ? this.reread(deadline) : Promise.resolve(this.#known);
  }

  /** Finds out again: the ensemble may have been reconfigured. */
  reread(deadline: number): Promise<Bounds> {
    this.#asking ??= this.#ask(deadline).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  /** @throws InvalidError if the ensemble does not allow the TTL */
  async check(ttlMs: number, deadline: number): Promise<void> {
    const { minTtlMs, maxTtlMs } = await this.read(deadline);
    if (ttlMs >= minTtlMs && ttlMs <= maxTtlMs) return;
    throw new InvalidError(
      'ttlMs',
      ttlMs,
      `between ${minTtlMs} and ${maxTtlMs}, the session timeouts that the ZooKeeper ensemble allows`,
      { minTtlMs, maxTtlMs },
    );
  }

  /**
   * Opens the session of a new lease with the wanted timeout, at the first server that grants it; without one, with
   * whatever the server makes of the default.
   * @throws InvalidError if no server grants it
   */
  async open(
    ttlMs: number | undefined,
    affinity: number,
    deadline: number,
    usualTtlMs = DEFAULT_TTL_MS,
  ): Promise<LeaseSession> {
    const exactTimeout = ttlMs !== undefined;
    try {
      return await this.#sessions.open({ timeoutMs: ttlMs ?? usualTtlMs, exactTimeout, affinity, deadline });
    } catch (error) {
      // The servers have been reconfigured since they were asked for their bounds.
      if (exactTimeout && error instanceof NoReplyError && error.cause instanceof SessionTimeoutError) {
        await this.reread(deadline);
        await this.check(ttlMs, deadline);
      }
      throw error;
    }
  }

  async #ask(deadline: number): Promise<Bounds> {
    const [minTtlMs, maxTtlMs] = await Promise.all([
      this.#granted(TOO_LITTLE_MS, deadline),
      this.#granted(TOO_MUCH_MS, deadline),
    ]);
    this.#known = { minTtlMs, maxTtlMs };
    return this.#known;
  }

  async #granted(timeoutMs: number, deadline: number): Promise<number> {
    const session = await this.#sessions.open({ timeoutMs, affinity: 0, deadline });
    const granted = session.timeoutMs;
    await session.close(deadline);
    return granted;
  }
}
