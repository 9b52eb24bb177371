/** Queues, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { QueueMetrics } from './admin/metrics.js';
import { queueObservers, type QueueObservers } from './admin/observers.js';
import { TidyQueues } from './admin/tidy.js';
import { Queues } from './queues.js';

export interface QueueRecipe extends Recipe {
  /** Those that this replica uses now. */
  readonly queues: Queues;
  readonly observers: QueueObservers;
  /** How much is in them, counted every few seconds. */
  readonly metrics: QueueMetrics;
}

export function queueRecipe(context: Coordination, { config, warn }: RecipeOptions): QueueRecipe {
  const queues = new Queues(context, config.maxMessageBytes);
  const observers = queueObservers(context, queues);
  const metrics = new QueueMetrics(context, queues, config.maxQueueLabels, (error) =>
    warn(error, 'failed to count queues; retrying'),
  );
  return {
    queues,
    observers,
    metrics,
    chores: [new TidyQueues(context, queues)],
    observed: () => observers.size,
    start: () => metrics.start(),
    close: () => {
      metrics.stop();
      queues.close();
    },
  };
}
