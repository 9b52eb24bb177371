/** Reservations, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { ReservationBounds } from './bounds.js';
import { ReservationWatch } from './watch.js';

export interface ReservationRecipe extends Recipe {
  readonly bounds: ReservationBounds;
}

export function reservationRecipe(context: Coordination, { config, warn }: RecipeOptions): ReservationRecipe {
  const watch = new ReservationWatch(context, (error) =>
    warn(error, 'a reservation could not be looked after; it is tried again'),
  );
  return {
    bounds: new ReservationBounds(context, config),
    start: () => watch.start(),
    stop: () => watch.stop(),
  };
}
