/**
 * Standstills: a process that was stopped, starved of its processor or migrated finds requests whose clients have given
 * up meanwhile and may have asked another replica since. Carrying them out would take from such a client what the other
 * replica has given it, such as a place in line. That the client has gone is read from its socket behind its request,
 * one turn of the event loop later.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ServerResponse } from 'node:http';
import { isGone } from '../frame/answer.js';

const BEAT_MS = 100;
/** Few clients give up sooner, and event loops rarely stall for so long. */
const STILL_MS = 500;
/** The share of a processor above which a long turn was work and no standstill. */
const WORKED = 0.5;
/** How long it takes to read everything that arrived meanwhile. */
const AFTERWARDS_MS = 1_000;
/** Turns of the event loop: the next one reads the end of a connection, and the one after that reports it. */
const TURNS = 2;

class Standstill {
  #beat = Infinity;
  /** Processor time that this process has used, as of the last beat. */
  #usedMs = 0;
  #until = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** Starts watching for standstills. */
  watch(): void {
    if (this.#timer !== undefined) return;
    this.#beat = performance.now();
    this.#usedMs = usedMs();
    // The check follows the reading of sockets, whether they are read before or after this timer when the process
    // resumes.
    this.#timer = setInterval(() => setImmediate(() => this.#onBeat()), BEAT_MS).unref();
  }

  /**
   * @param at when a request came, monotonic
   * @returns whether its client may have given it up before that
   */
  isJustOver(at: number): boolean {
    return at < this.#until || this.#stoodStillUntil(at);
  }

  #onBeat(): void {
    const now = performance.now();
    if (this.#stoodStillUntil(now)) this.#until = now + AFTERWARDS_MS;
    this.#beat = now;
    this.#usedMs = usedMs();
  }

  #stoodStillUntil(now: number): boolean {
    const sinceMs = now - this.#beat;
    return sinceMs > STILL_MS && usedMs() - this.#usedMs < WORKED * sinceMs;
  }
}

function usedMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

export const standstill = new Standstill();

/** @returns whether the client of a request that has just come is still there, as far as has arrived */
export async function isAwaited(response: ServerResponse): Promise<boolean> {
  for (let turn = 0; turn < TURNS; turn += 1) await nextTurn();
  return !isGone(response) && !response.req.destroyed;
}
