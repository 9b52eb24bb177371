/**
 * What one principal may ask of this replica, so that one does not take it from all others: waits and streams open at once, and
 * requests per second.
 *
 * Counted here and nowhere else: a principal that uses all replicas has as much of each. Requests per second are a bucket of tokens:
 * `burst` of them, filled with `perSecond`, one for each request. What keeps or gives back what the caller has takes none
 * (`x-rate-limited: false` in the contract): whoever is refused a heartbeat or a release under load would lose, or keep, a lock.
 */
import type { Config } from '../config.js';
import { PosternError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import { SECOND, type Clock } from '../time.js';

export type PrincipalLimitsConfig = Pick<
  Config,
  'maxWaitsPerPrincipal' | 'maxStreamsPerPrincipal' | 'rateLimit' | 'rateBurst'
>;

/** Principals remembered before those that are as good as new are forgotten. */
const REMEMBERED_MAX = 10_000;

interface Usage {
  waits: number;
  streams: number;
  tokens: number;
  /** When `tokens` was right, monotonic. */
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

  /** Principals that are remembered. */
  get size(): number {
    return this.#usages.size;
  }

  /** Takes a token. @throws PosternError `rate-limited` when there is none */
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

  /** To be closed when the wait or the stream is over. @throws PosternError `rate-limited` when there are too many */
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
    usage[kind] += 1;
  }

  closeWait(principal: string, kind: 'waits' | 'streams'): void {
    const usage = this.#usages.get(principal);
    if (usage !== undefined) usage[kind] -= 1;
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

  /** Those that have nothing open and a full bucket. With twice as many as are left it is done again. */
  #forget(): void {
    for (const [principal, usage] of this.#usages) {
      this.#fill(usage);
      if (usage.waits === 0 && usage.streams === 0 && usage.tokens >= this.#burst) this.#usages.delete(principal);
    }
    this.#remembered = Math.max(REMEMBERED_MAX, 2 * this.#usages.size);
  }
}
