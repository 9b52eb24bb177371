/** The part of the gateway that locks, read-write locks, semaphores and elections share. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { TidyLockDelays } from './delay/tidy.js';
import { lineObservers, type HolderObservers } from './observer.js';
import { RevocationWatch } from './revocation/watch.js';
import { TidyLines } from './tidy.js';

export interface LineRecipe extends Recipe {
  readonly observers: HolderObservers;
}

export function lineRecipe(context: Coordination, { timing, warn }: RecipeOptions): LineRecipe {
  const observers = lineObservers(context);
  const revocations = new RevocationWatch(context, (error) =>
    warn(error, 'a revocation could not be looked after; it is tried again'),
  );
  return {
    observers,
    chores: [new TidyLines(context, timing), new TidyLockDelays(context)],
    observed: () => observers.size,
    start: () => revocations.start(),
    stop: () => revocations.stop(),
  };
}
