/** Runs, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { Runs } from './runs.js';
import { TidyRuns } from './tidy.js';

export interface RunRecipe extends Recipe {
  readonly runs: Runs;
}

export function runRecipe(context: Coordination, { config }: RecipeOptions): RunRecipe {
  const runs = new Runs(context, config.runOccurrences);
  return {
    runs,
    chores: [new TidyRuns(context, config.runHistoryMs)],
    observed: () => runs.observers.size,
    writing: () => runs.size,
  };
}
