/** Double barriers, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import { Memberships } from '../membership/membership.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { DoubleBarriers } from './double-barrier.js';
import { roundObservers, type RoundObservers } from './observer.js';
import { Rounds } from './rounds.js';
import { TidyDoubleBarriers } from './tidy.js';

export interface DoubleBarrierRecipe extends Recipe {
  readonly barriers: DoubleBarriers;
  readonly observers: RoundObservers;
}

export function doubleBarrierRecipe(context: Coordination, { timing }: RecipeOptions): DoubleBarrierRecipe {
  const rounds = new Rounds(context.control);
  const observers = roundObservers(context.control, rounds);
  return {
    barriers: new DoubleBarriers(context, new Memberships(context), rounds, observers),
    observers,
    chores: [new TidyDoubleBarriers(context, timing.idleMs)],
    observed: () => observers.size,
  };
}
