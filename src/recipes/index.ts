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
import { poolRecipe } from './pool/recipe.js';
import { Watched } from './observing/watched.js';
import { pushMessages } from './queue/push/push.js';
import { queueRecipe, type QueueRecipe } from './queue/recipe.js';
import type { Recipe, RecipeOptions } from './recipe.js';
import { reservationRecipe } from './reservation/recipe.js';
import { runRecipe } from './run/recipe.js';
import { scheduleRecipe } from './schedule/recipe.js';
import type { Queuing } from './schedule/schedule.js';
import { transactionRecipe } from './transaction/recipe.js';

export type Recipes = ReturnType<typeof makeRecipes>;

export function makeRecipes(context: Coordination, options: RecipeOptions) {
  const watched = new Watched(options.config.maxWatchedKeys, () =>
    context.metrics.limitRefusalsTotal.inc({ limit: 'watched' }),
  );
  const queue = queueRecipe(context, options);
  return {
    line: lineRecipe(context, options),
    group: groupRecipe(context, options),
    doubleBarrier: doubleBarrierRecipe(context, options),
    barrier: barrierRecipe(context),
    config: configRecipe(context, options, watched),
    transaction: transactionRecipe(context, options),
    queue,
    counter: counterRecipe(context, options),
    run: runRecipe(context, options),
    pool: poolRecipe(context, options),
    reservation: reservationRecipe(context, options),
    schedule: scheduleRecipe(context, options, queuingOf(queue)),
    names: namesRecipe(context, watched),
    contention: contentionRecipe(context, options),
  } satisfies Record<string, Recipe>;
}

/** What schedules ask of queues. */
function queuingOf({ queues }: QueueRecipe): Queuing {
  return {
    push: (namespace, queue, message, awaited) => pushMessages(queues, namespace, queue, [message], awaited),
    orderOf: async (namespace, queue, deadline) =>
      (await queues.find(namespace, queue, deadline))?.config.order ?? queues.unmade(namespace, queue).config.order,
  };
}
