/** Groups, as the gateway has them. */
import type { Coordination } from '../coordination.js';
import { TidyMarks } from '../housekeeping/marks.js';
import { Memberships } from '../membership/membership.js';
import type { Recipe, RecipeOptions } from '../recipe.js';
import { logObservers, type LogObservers } from './messages/observer.js';
import { Posts } from './messages/post.js';
import { TidyMessages } from './messages/tidy.js';
import { groupObservers, type GroupObservers } from './observer.js';
import { TidyGroups } from './tidy.js';

export interface GroupRecipe extends Recipe {
  readonly memberships: Memberships;
  readonly observers: GroupObservers;
  readonly posts: Posts;
  readonly logs: LogObservers;
}

export function groupRecipe(context: Coordination, { config, timing }: RecipeOptions): GroupRecipe {
  const observers = groupObservers(context.control);
  const posts = new Posts(context, config.groupMessages);
  const logs = logObservers(context.control);
  return {
    memberships: new Memberships(context),
    observers,
    posts,
    logs,
    chores: [
      new TidyGroups(context, timing.idleMs),
      new TidyMessages(context, config.groupMessageMs),
      new TidyMarks((namespace) => context.layout.groupMessageMarks(namespace), timing.markMs),
    ],
    observed: () => observers.size + logs.size,
    writing: () => posts.size,
  };
}
