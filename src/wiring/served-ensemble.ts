/**
 * One ensemble as this process serves it: the foundation on its sessions, the recipes, what happens without being
 * asked, and whether all of that is ready. A gateway has one for each of its ensembles, and they share nothing but the
 * process (`gateway.ts`).
 */
import type { Config } from '../config.js';
import type { Readiness } from '../http/routes/operations.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics/metrics.js';
import { HOUSEKEEPING_TIMING, Housekeeping, type HousekeepingTiming } from '../recipes/housekeeping/housekeeping.js';
import { makeRecipes, type Recipes } from '../recipes/index.js';
import type { Recipe } from '../recipes/recipe.js';
import type { Contention } from '../recipes/waiting/contention.js';
import { SECOND, type Clock } from '../time.js';
import type { Backlog } from '../zookeeper/connection/backlog.js';
import { ensembleOf } from './ensemble.js';
import { foundationOf, type Foundation, type FoundationOptions } from './foundation.js';
import { Preparation } from './readiness.js';

/**
 * Long enough for the ensemble to elect a leader; short enough to end a dead replica's watches and housekeeping soon.
 */
const CONTROL_SESSION_TIMEOUT_MS = 10 * SECOND;
const CLOSE_CONTROL_MS = SECOND;

export interface ServedEnsembleOptions {
  /** This process's share of the limits; `zookeeper` and `fencingFloor` are those of this ensemble. */
  readonly config: Config;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly backlog: Backlog;
  /** Where requests of this process wait. */
  readonly contention: Contention;
  /** As in `Coordination`; default: always. */
  readonly isOpen?: (namespace: string) => boolean;
  readonly onRegistered?: FoundationOptions['onRegistered'];
  /** Default: as without further ensembles. */
  readonly floorSetting?: string;
  /** Default: as in production. */
  readonly timing?: HousekeepingTiming | undefined;
  /** Timeout of the control session, ms. */
  readonly sessionTimeoutMs?: number | undefined;
  /** Aborted when the replica should get no more requests. */
  readonly leaving: AbortSignal;
  /** Aborted later, when the drain begins. */
  readonly draining: AbortSignal;
}

export class ServedEnsemble {
  readonly metrics: Metrics;
  readonly foundation: Foundation;
  readonly recipes: Recipes;
  readonly #housekeeping: Housekeeping;
  readonly #preparation: Preparation;

  /** Nothing is sent before `start`. @throws Error with one sentence if the connect string cannot be used */
  constructor(options: ServedEnsembleOptions) {
    const { config, metrics, logger, clock, contention, isOpen = () => true, onRegistered } = options;
    const ensemble = ensembleOf(config, options.backlog, metrics, logger);
    const timing = options.timing ?? HOUSEKEEPING_TIMING;
    this.metrics = metrics;
    this.foundation = foundationOf({
      ...{ config, ensemble, metrics, logger, clock, contention, isOpen, onRegistered },
      floorSetting: options.floorSetting ?? 'POSTERN_FENCING_FLOOR',
      sessionTimeoutMs: options.sessionTimeoutMs ?? CONTROL_SESSION_TIMEOUT_MS,
    });
    const { context } = this.foundation;
    const warn = (error: unknown, message: string): void => logger.warn({ err: error }, message);
    this.recipes = makeRecipes(context, { config, timing, warn });
    const onFault = (error: unknown, what?: string): void =>
      warn(error, `housekeeping${what === undefined ? '' : ` of ${what}`} failed; retrying`);
    const chores = this.#all.flatMap((recipe) => recipe.chores ?? []);
    this.#housekeeping = new Housekeeping(context, onFault, timing, chores);
    this.#preparation = new Preparation({
      ...this.foundation,
      requestTimeoutMs: config.requestTimeoutMs,
      clock,
      logger,
      leaving: options.leaving,
      draining: options.draining,
      onPrepared: () => {
        for (const recipe of this.#all) recipe.start?.();
        this.#housekeeping.start();
      },
    });
  }

  get readiness(): Readiness {
    return this.#preparation.readiness();
  }

  /** How many things are observed for clients now. */
  get observed(): number {
    return this.#sum((recipe) => recipe.observed?.());
  }

  /** How many names are being written now. */
  get writing(): number {
    return this.#sum((recipe) => recipe.writing?.());
  }

  /** Sets the metrics of what is looked at rather than counted. */
  tell(): void {
    const { control } = this.foundation.context;
    this.metrics.zookeeperGroupCommitQueue.set(control.groupCommit.waiting);
    this.metrics.fencingTokenHighest.set(control.lastZxid);
  }

  /** Begins to connect; never fails. */
  start(): void {
    this.foundation.context.control.start();
  }

  /** Ends what happens without being asked, and what waits. */
  drain(): void {
    this.#housekeeping.stop();
    for (const recipe of this.#all) recipe.stop?.();
  }

  /** After the last request: lets the sessions of leases live on by themselves, and ends its own. */
  async close(): Promise<void> {
    const { context, sessions } = this.foundation;
    for (const recipe of this.#all) recipe.close?.();
    await context.cleanup.stop();
    sessions.detachAll();
    await context.control.stop(performance.now() + CLOSE_CONTROL_MS);
  }

  get #all(): readonly Recipe[] {
    return Object.values(this.recipes);
  }

  #sum(count: (recipe: Recipe) => number | undefined): number {
    return this.#all.reduce((total, recipe) => total + (count(recipe) ?? 0), 0);
  }
}
