/** The names of a kind, watched: lists that tell of changes. */
import type { Coordination } from '../coordination.js';
import { Turns } from '../observing/turns.js';
import type { Watched } from '../observing/watched.js';
import type { Recipe } from '../recipe.js';
import { namesObservers, type NamesObservers } from './observers.js';

export interface NamesRecipe extends Recipe {
  readonly observers: NamesObservers;
  /** What the streams of many things watch together. */
  readonly watched: Watched;
  /** In which they begin and end. */
  readonly turns: Turns;
}

export function namesRecipe({ control }: Coordination, watched: Watched): NamesRecipe {
  const observers = namesObservers(control);
  const turns = new Turns();
  return { observers, watched, turns, observed: () => observers.size };
}
