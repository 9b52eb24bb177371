/**
 * What one principal may use of this replica, so that it cannot take everything from the others: open waits and
 * streams, and requests per second.
 *
 * Counted per replica: a principal that uses all replicas has as much at each. The rate is a token bucket of size
 * `burst`, refilled with `perSecond`; each request takes one. Requests that keep or give back a hold take none
 * (`x-rate-limited: false` in the contract): a refused heartbeat would lose a lock, a refused release would keep one.
 */
import type { Config } from '../../config.js';
import { PosternError } from '../../errors.js';
import type { Metrics } from '../../metrics/metrics.js';
import { SECOND, type Clock } from '../../time.js';

export type PrincipalLimitsConfig = Pick<
  Config,
  'maxWaiters' | 'maxWaitsPerPrincipal' | 'maxStreamsPerPrincipal' | 'rateLimit' | 'rateBurst'
>;

/** Above this many principals, those that look like new ones are forgotten. */
const REMEMBERED_MAX = 10_000;

interface Usage {
  waits: number;
  streams: number;
  tokens: number;
  /** When `tokens` was computed, monotonic. */
  at: number;
}

export class PrincipalLimits {
  readonly #config: PrincipalLimitsConfig;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #usages = new Map<string, Usage>();
  #remembered = REMEMBERED_MAX;

  constructor(config: PrincipalLimitsConfig, metrics: Metrics, clock: Clock) {
    this.#config = config;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  /** Number of principals remembered. */
  get size(): number {
    return this.#usages.size;
  }

  /**
   * Takes one token.
   * @throws PosternError `rate-limited` if there is none
   */
  admitRequest(principal: string): void {
    const { rateLimit } = this.#config;
    if (rateLimit === 0) return;
    const usage = this.#usageOf(principal);
    this.#fill(usage);
    if (usage.tokens >= 1) {
      usage.tokens -= 1;
      return;
    }
    this.#metrics.limitRefusalsTotal.inc({ limit: 'requests' });
    throw new PosternError(
      'rate-limited',
      `"${principal}" sends more than ${rateLimit} requests per second to this replica.`,
      {
        members: { limit: 'rateLimit', rateLimit, rateBurst: this.#burst },
        retryAfterSeconds: Math.ceil((1 - usage.tokens) / rateLimit),
      },
    );
  }

  /**
   * Call `closeWait` when the wait or the stream is over. Of what all may have open together, one may have half.
   * @throws PosternError `rate-limited` if too many are open
   */
  openWait(principal: string, kind: 'waits' | 'streams'): void {
    const usage = this.#usageOf(principal);
    const limit = kind === 'waits' ? 'maxWaitsPerPrincipal' : 'maxStreamsPerPrincipal';
    const max = this.#config[limit];
    if (usage[kind] >= max) {
      this.#metrics.limitRefusalsTotal.inc({ limit: kind });
      throw new PosternError('rate-limited', `"${principal}" has ${max} ${kind} open at this replica already.`, {
        members: { limit, [limit]: max },
      });
    }
    if (usage.waits + usage.streams >= this.#together) {
      this.#metrics.limitRefusalsTotal.inc({ limit: kind });
      const { maxWaiters } = this.#config;
      throw new PosternError(
        'rate-limited',
        `"${principal}" has ${this.#together} waits and streams open at this replica already, of ${maxWaiters} that all may have.`,
        { members: { limit: 'maxWaiters', maxWaiters } },
      );
    }
    usage[kind] += 1;
  }

  closeWait(principal: string, kind: 'waits' | 'streams'): void {
    const usage = this.#usages.get(principal);
    if (usage !== undefined) usage[kind] -= 1;
  }

  /** Waits and streams; more than half where one of their own limits is. */
  get #together(): number {
    const { maxWaiters, maxWaitsPerPrincipal, maxStreamsPerPrincipal } = this.#config;
    return Math.max(Math.floor(maxWaiters / 2), maxWaitsPerPrincipal, maxStreamsPerPrincipal);
  }

  get #burst(): number {
    return this.#config.rateBurst === 0 ? this.#config.rateLimit : this.#config.rateBurst;
  }

  #usageOf(principal: string): Usage {
    let usage = this.#usages.get(principal);
    if (usage === undefined) {
      if (this.#usages.size >= this.#remembered) this.#forget();
      usage = { waits: 0, streams: 0, tokens: this.#burst, at: this.#clock.monotonic() };
      this.#usages.set(principal, usage);
    }
    return usage;
  }

  #fill(usage: Usage): void {
    const now = this.#clock.monotonic();
    usage.tokens = Math.min(this.#burst, usage.tokens + ((now - usage.at) / SECOND) * this.#config.rateLimit);
    usage.at = now;
  }

  /** Forgets principals that have nothing open and a full bucket. Runs again once there are twice as many as remain. */
  #forget(): void {
    for (const [principal, usage] of this.#usages) {
      this.#fill(usage);
      if (usage.waits === 0 && usage.streams === 0 && usage.tokens >= this.#burst) this.#usages.delete(principal);
    }
    this.#remembered = Math.max(REMEMBERED_MAX, 2 * this.#usages.size);
  }
}
