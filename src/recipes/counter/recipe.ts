/** Counters, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import { TidyMarks } from '../housekeeping/marks.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { counterObservers, type CounterObservers } from './observers.js';
import { TidyDeletedCounters } from './tidy-deleted.js';
import { CounterWriter } from './writer.js';

export interface CounterRecipe extends Recipe {
  readonly observers: CounterObservers;
  readonly writer: CounterWriter;
}

export function counterRecipe(context: Coordination, { timing }: RecipeOptions): CounterRecipe {
  const observers = counterObservers(context.control);
  const writer = new CounterWriter(context);
  const marks = new TidyMarks((namespace) => context.layout.counterMarks(namespace), timing.markMs);
  return {
    observers,
    writer,
    chores: [marks, new TidyDeletedCounters(context, timing.tombstoneMs)],
    observed: () => observers.size,
    writing: () => writer.size,
  };
}
