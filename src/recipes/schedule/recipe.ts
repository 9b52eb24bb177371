/** Schedules, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { Firing } from './firing.js';
import type { Queuing } from './schedule.js';
import { Scheduler } from './scheduler.js';
import { Schedules } from './schedules.js';

export interface ScheduleRecipe extends Recipe {
  readonly schedules: Schedules;
}

/** @param queuing where messages are pushed to */
export function scheduleRecipe(
  context: Coordination,
  { config, warn }: RecipeOptions,
  queuing: Queuing,
): ScheduleRecipe {
  const { maxSchedules, scheduleSeconds, scheduleGraceMs } = config;
  const schedules = new Schedules(context, queuing, { maxSchedules, seconds: scheduleSeconds });
  const firing = new Firing(context, queuing, scheduleGraceMs);
  const scheduler = new Scheduler(context, firing, (error) => warn(error, 'a schedule could not be fired; retrying'));
  return {
    schedules,
    observed: () => schedules.observers.size,
    start: () => scheduler.start(),
    stop: () => scheduler.stop(),
  };
}
