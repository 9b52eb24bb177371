/** The configuration, as the gateway has it. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { ConfigObservers } from './observers.js';
import { KeySummaries } from './summaries.js';
import { TidyConfig } from './tidy.js';
import type { Watched } from '../observing/watched.js';
import { ConfigWriter } from './write.js';

export interface ConfigRecipe extends Recipe {
  readonly observers: ConfigObservers;
  readonly summaries: KeySummaries;
  readonly writer: ConfigWriter;
}

export function configRecipe(context: Coordination, { timing }: RecipeOptions, watched: Watched): ConfigRecipe {
  const summaries = new KeySummaries(context);
  const observers = new ConfigObservers({ ...context, summaries }, watched);
  const writer = new ConfigWriter(context);
  return {
    observers,
    summaries,
    writer,
    chores: [new TidyConfig(context, timing.tombstoneMs)],
    observed: () => observers.size,
    writing: () => writer.size,
  };
}
