/** Pools, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { Pools } from './pools.js';
import { TidyPools } from './tidy.js';

export interface PoolRecipe extends Recipe {
  readonly pools: Pools;
}

export function poolRecipe(context: Coordination, { config }: RecipeOptions): PoolRecipe {
  const pools = new Pools(context, config.maxPools);
  return {
    pools,
    chores: [new TidyPools(context)],
    observed: () => pools.observers.size,
  };
}
