/**
 * After a process stood still (stopped, starved of its processor, moved to another machine) it finds requests whose clients have given them up meanwhile, and
 * may have asked another replica since: to carry them out would take from such a client what the other replica has given it, a place in line for
 * instance. That a client has gone stands in its socket behind its request, and is read a turn of the event loop later.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ServerResponse } from 'node:http';
import { isGone } from './answer.js';

const BEAT_MS = 100;
/** Clients that give up sooner are few, and loops that are held up for so long are rare. */
const STILL_MS = 500;
/** Of a processor that it had meanwhile: more is work, and no standstill. */
const WORKED = 0.5;
/** So long it takes to read all that arrived meanwhile. */
const AFTERWARDS_MS = 1_000;
/** Of the event loop: in the next one the end of a connection is read, and after that it is told. */
const TURNS = 2;

class Standstill {
  #beat = Infinity;
  /** As of the last beat: what this process has used of processors since it began. */
  #usedMs = 0;
  #until = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  /** From now on it is noticed. */
  watch(): void {
    if (this.#timer !== undefined) return;
    this.#beat = performance.now();
    this.#usedMs = usedMs();
    // After the sockets were read: they are, when the process goes on, before or after this is due.
    this.#timer = setInterval(() => setImmediate(() => this.#onBeat()), BEAT_MS).unref();
  }

  /** @param at when a request came, monotonic @returns whether its client may have given it up before that */
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

/** @returns whether the client of a request that has just come is there to be answered, as far as has arrived */
export async function isAwaited(response: ServerResponse): Promise<boolean> {
  for (let turn = 0; turn < TURNS; turn += 1) await nextTurn();
  return !isGone(response) && !response.req.destroyed;
}
