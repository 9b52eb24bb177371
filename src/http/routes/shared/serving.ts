/** What all routes are built from (`routes/index.ts`). */
import type { Config } from '../../../config.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { Recipes } from '../../../recipes/index.js';
import type { ContentionTold } from '../../../recipes/waiting/contention.js';
import type { Routes } from '../../frame/exchange.js';
import type { Watchables } from './watchable.js';

export interface Serving {
  readonly config: Config;
  readonly context: Coordination;
  readonly recipes: Recipes;
  /**
   * Asked before everything that is done in ZooKeeper for a request; a promise while it is not known yet.
   * @param deadline on the monotonic clock
   * @throws PosternError if this replica may do nothing there
   */
  readonly admit: (deadline: number) => void | Promise<void>;
  /** Where requests wait: each process's report for a namespace. */
  readonly contention: (namespace: string) => Promise<readonly (readonly ContentionTold[])[]>;
}

/** What is served, and what of it can be watched together: each kind's routes add theirs. */
export interface Building extends Serving {
  readonly watchables: Watchables;
}

export type RouteFactory = (building: Building) => Routes;
