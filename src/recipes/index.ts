/** The recipes of one replica; a new one adds a line here. */
import { barrierRecipe } from './barrier/recipe.js';
import { configRecipe } from './config/recipe.js';
import { contentionRecipe } from './contention/recipe.js';
import type { Coordination } from './coordination.js';
import { counterRecipe } from './counter/recipe.js';
import { doubleBarrierRecipe } from './double-barrier/recipe.js';
import { groupRecipe } from './group/recipe.js';
import { lineRecipe } from './line/recipe.js';
import { namesRecipe } from './names/recipe.js';
import { Watched } from './observing/watched.js';
import { queueRecipe } from './queue/recipe.js';
import type { Recipe, RecipeOptions } from './recipe.js';
import { runRecipe } from './run/recipe.js';
import { transactionRecipe } from './transaction/recipe.js';

export type Recipes = ReturnType<typeof makeRecipes>;

export function makeRecipes(context: Coordination, options: RecipeOptions) {
  const watched = new Watched(options.config.maxWatchedKeys, () =>
    context.metrics.limitRefusalsTotal.inc({ limit: 'watched' }),
  );
  return {
    line: lineRecipe(context, options),
    group: groupRecipe(context, options),
    doubleBarrier: doubleBarrierRecipe(context, options),
    barrier: barrierRecipe(context),
    config: configRecipe(context, options, watched),
    transaction: transactionRecipe(context, options),
    queue: queueRecipe(context, options),
    counter: counterRecipe(context, options),
    run: runRecipe(context, options),
    names: namesRecipe(context, watched),
    contention: contentionRecipe(context, options),
  } satisfies Record<string, Recipe>;
}
