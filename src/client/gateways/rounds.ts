/**
 * A long wait as a sequence of requests. One request may wait only as long as the gateway allows, and not longer than a
 * TTL: an open wait keeps the lease alive, also that of a program that has been stopped meanwhile.
 */
import { now } from '../lease/clock.js';
import { PosternError } from '../errors.js';

/** Below what common proxies, and gateways unless set otherwise, allow; in milliseconds. */
const ROUND_MAX_MS = 20_000;

export interface Round {
  /** How long this request shall wait, in milliseconds. */
  waitMs: number;
  /** Whether the whole wait is over with it. */
  last: boolean;
}

export class Rounds {
  #roundMs: number;

  constructor(ttlMs: number) {
    this.#roundMs = Math.min(ttlMs, ROUND_MAX_MS);
  }

  /** @param until on the clock of the client; `Infinity` to wait for as long as it takes */
  next(until: number): Round {
    const leftMs = Math.max(0, Math.ceil(until - now()));
    return { waitMs: Math.min(leftMs, this.#roundMs), last: leftMs <= this.#roundMs };
  }

  /** Whether the request was refused because it would have waited too long, and shorter ones come from now on. */
  tooLong(error: unknown, { waitMs }: Round): boolean {
    if (!(error instanceof PosternError) || error.code !== 'invalid' || error.problem?.field !== 'waitMs') return false;
    if (waitMs <= 1) return false;
    this.#roundMs = Math.min(this.#roundMs, Math.floor(waitMs / 2));
    return true;
  }
}
