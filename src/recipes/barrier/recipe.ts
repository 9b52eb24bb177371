/** Barriers, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe } from '../recipe.js';
import { barrierObservers, type BarrierObservers } from './observer.js';

export interface BarrierRecipe extends Recipe {
  readonly observers: BarrierObservers;
}

export function barrierRecipe(context: Coordination): BarrierRecipe {
  const observers = barrierObservers(context.control);
  return { observers, observed: () => observers.size };
}
