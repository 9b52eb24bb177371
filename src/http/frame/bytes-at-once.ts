/**
 * Bounds the bytes of one kind that this replica keeps in memory for its clients, so that slow or many clients do not
 * fill it: bodies being read or processed, answers not written yet, requests sent ahead.
 *
 * Guarantee: together, all of a kind take at most the limit, and those of one principal at most half of it. The first
 * bytes of each are not counted, so heartbeats, acquires and the like are never refused because of what others send or
 * do not read. Two exceptions: what the contract marks with `x-rate-limited: false` is bounded by its principal's half,
 * not by the sum, because a refused heartbeat would lose a hold; and a principal's only one may exceed that half,
 * because it would be refused forever.
 */
import { PosternError } from '../../errors.js';
import type { Metrics } from '../../metrics/metrics.js';

export interface BytesOfKind {
  /** The metric's label. */
  readonly kind: 'bodies' | 'answers' | 'ahead';
  /** The limit's name in problems. */
  readonly limit: string;
  readonly max: number;
  /** Bytes of each that are not counted. */
  readonly uncounted: number;
}

export class BytesAtOnce {
  readonly uncounted: number;
  readonly #of: BytesOfKind;
  readonly #metrics: Metrics;
  readonly #ofPrincipal = new Map<string, number>();
  #total = 0;

  constructor(of: BytesOfKind, metrics: Metrics) {
    this.#of = of;
    this.uncounted = of.uncounted;
    this.#metrics = metrics;
  }

  /** Bytes counted now. */
  get total(): number {
    return this.#total;
  }

  /** @param keeps whether a hold may depend on it */
  open(principal: string, keeps: boolean): ByteShare {
    return new ByteShare(this, principal, keeps);
  }

  /** Only for shares. @param bytes negative: given back */
  give(principal: string, bytes: number): void {
    this.#total += bytes;
    const own = (this.#ofPrincipal.get(principal) ?? 0) + bytes;
    if (own === 0) this.#ofPrincipal.delete(principal);
    else this.#ofPrincipal.set(principal, own);
  }

  /** Only for shares: why one that has `taken` may not have `more`, if it may not. */
  refusal(principal: string, keeps: boolean, taken: number, more: number): PosternError | undefined {
    const { kind, limit, max: all } = this.#of;
    const own = this.#ofPrincipal.get(principal) ?? 0;
    const isTooMuch = !keeps && this.#total > taken && this.#total + more > all;
    if (!isTooMuch && (own === taken || own + more <= all / 2)) return undefined;
    this.#metrics.limitRefusalsTotal.inc({ limit: kind });
    const whose = isTooMuch ? 'This replica' : `"${principal}"`;
    const max = isTooMuch ? all : all / 2;
    return new PosternError(
      'overloaded',
      `${whose} has as many bytes of ${kind} here as may be at once (${max}); ask later, or another replica.`,
      { members: { limit, [limit]: max } },
    );
  }
}

/** The bytes of one body, answer or request. A class, because there is one for each request with a body. */
export class ByteShare {
  readonly #all: BytesAtOnce;
  readonly #principal: string;
  readonly #keeps: boolean;
  /** Bytes that are counted. */
  #taken = 0;

  constructor(all: BytesAtOnce, principal: string, keeps: boolean) {
    this.#all = all;
    this.#principal = principal;
    this.#keeps = keeps;
  }

  /**
   * Reports its length, or its new length.
   * @returns `overloaded` if there is no room
   */
  grow(bytes: number): PosternError | undefined {
    const more = bytes - this.#all.uncounted - this.#taken;
    if (more <= 0) return undefined;
    const refused = this.#all.refusal(this.#principal, this.#keeps, this.#taken, more);
    if (refused === undefined) this.#give(more);
    return refused;
  }

  /** Reports its length when it can no longer be refused, or what is left of it. */
  set(bytes: number): void {
    const change = Math.max(0, bytes - this.#all.uncounted) - this.#taken;
    if (change !== 0) this.#give(change);
  }

  /** Call it when the bytes are no longer in memory. */
  close(): void {
    this.set(0);
  }

  #give(bytes: number): void {
    this.#taken += bytes;
    this.#all.give(this.#principal, bytes);
  }
}
