/**
 * When which fault strikes what, and for how long: a function of the seed, of the length of the run and of the faults
 * that may be drawn, and of nothing else. So a seed repeats the blows; what the processes make of them is up to the
 * machine.
 *
 * There are two lanes, which run beside each other: what is done to the ensemble, and what is done to replicas, clients
 * and the connections between them. In a lane one blow is over before the next one falls. Each fault of a lane comes
 * once before any comes again. At the end of every minute both lanes rest.
 */
import { below, randomFrom, seedOf, shuffled } from '../support/random.js';

export const LANES = ['ensemble', 'edge'] as const;
export type Lane = (typeof LANES)[number];

/** What the schedule has to know of a fault. */
export interface Kind {
  readonly name: string;
  readonly lane: Lane;
  /** How long it lasts, ms. */
  readonly lasts: readonly [least: number, most: number];
}

export interface Blow {
  readonly at: number;
  readonly fault: string;
  readonly lane: Lane;
  readonly lastsMs: number;
  /** Where the fault has a choice: which replica, server or client, and what else it draws. */
  readonly seed: number;
}

/** Nothing is struck at first, so that there is something to strike, nor at last, so that everybody comes to an end. */
const CALM_MS = 4_000;
/** In every minute nobody is struck for a while, so that it is seen whether those who wait come to their turn. */
const MINUTE_MS = 60_000;
const REST_MS = 20_000;
/** Between two blows of a lane, ms. */
const GAP = [1_000, 6_000] as const;

/** @param lengthMs of the whole run @returns in the order of their times */
export function makeSchedule(seed: number, lengthMs: number, kinds: readonly Kind[]): Blow[] {
  return LANES.flatMap((lane) =>
    blowsOf(
      lane,
      randomFrom(seedOf(seed, lane)),
      lengthMs,
      kinds.filter((kind) => kind.lane === lane),
    ),
  ).sort((a, b) => a.at - b.at);
}

function blowsOf(lane: Lane, random: () => number, lengthMs: number, kinds: readonly Kind[]): Blow[] {
  const blows: Blow[] = [];
  let bag: Kind[] = [];
  let at = CALM_MS;
  while (kinds.length > 0) {
    if (bag.length === 0) bag = shuffled(kinds, random);
    const { name, lasts } = bag.pop() as Kind;
    at += between(GAP, random);
    const lastsMs = between(lasts, random);
    if (at % MINUTE_MS > MINUTE_MS - REST_MS - lastsMs) at = (Math.floor(at / MINUTE_MS) + 1) * MINUTE_MS;
    const blow: Blow = { at, fault: name, lane, lastsMs, seed: below(2 ** 31, random) };
    if (at + lastsMs > lengthMs - CALM_MS) break;
    blows.push(blow);
    at += lastsMs;
  }
  return blows;
}

function between([least, most]: readonly [number, number], random: () => number): number {
  return Math.round(least + random() * (most - least));
}
