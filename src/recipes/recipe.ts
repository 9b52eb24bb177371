/**
 * The gateway's interface to a recipe, besides its routes: what to start, stop, count and tidy up. A recipe that keeps
 * nothing in memory between requests needs none of it: locks, read-write locks, semaphores and elections keep their
 * state in the line.
 *
 * CONTRIBUTING.md says how to add a recipe, and where each part of it goes.
 */
import type { Config } from '../config.js';
import type { Chore, HousekeepingTiming } from './housekeeping/housekeeping.js';

export interface Recipe {
  /** What housekeeping does about it, in this order. */
  readonly chores?: readonly Chore[];
  /** How many things are observed for clients now. */
  observed?(): number;
  /** How many names are being written now. */
  writing?(): number;
  /** Called once, when ZooKeeper has been reached: what it does without being asked begins. */
  start?(): void;
  /** The replica drains: what it does without being asked ends. Also called when it was never started. */
  stop?(): void;
  /** All requests have been answered, and no more come: it lets go of what it keeps. */
  close?(): void;
}

/** What a recipe is made with, beside what all of them share (`coordination.ts`). */
export interface RecipeOptions {
  readonly config: Config;
  readonly timing: HousekeepingTiming;
  /** Logs a fault of something for which no request waits. @param message what failed, and what happens next */
  readonly warn: (error: unknown, message: string) => void;
}
