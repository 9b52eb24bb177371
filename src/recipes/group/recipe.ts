/** Groups, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import { Memberships } from '../membership/membership.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { groupObservers, type GroupObservers } from './observer.js';
import { TidyGroups } from './tidy.js';

export interface GroupRecipe extends Recipe {
  readonly memberships: Memberships;
  readonly observers: GroupObservers;
}

export function groupRecipe(context: Coordination, { timing }: RecipeOptions): GroupRecipe {
  const observers = groupObservers(context.control);
  return {
    memberships: new Memberships(context),
    observers,
    chores: [new TidyGroups(context, timing.idleMs)],
    observed: () => observers.size,
  };
}
