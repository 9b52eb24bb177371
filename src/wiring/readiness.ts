/**
 * Readiness: the replica takes traffic once it has found or created what every request relies on in ZooKeeper, and as
 * long as ZooKeeper has not been away for long.
 */
import type { Readiness } from '../http/routes/operations.js';
import type { Logger } from '../log.js';
import { SECOND, type Clock } from '../time.js';
import { askTime } from '../zookeeper/ensemble-time.js';
import type { Foundation } from './foundation.js';

/** Waiting requests survive a shorter loss of ZooKeeper; only a longer one takes the replica out of service. */
const NOT_READY_AFTER_MS = 10 * SECOND;

export interface PreparationOptions extends Omit<Foundation, 'sessions'> {
  readonly requestTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Aborted when the replica should get no more requests. */
  readonly leaving: AbortSignal;
  /** Aborted later, when the drain begins. */
  readonly draining: AbortSignal;
  /** Called once, when it is first prepared, unless the replica is draining. */
  readonly onPrepared: () => void;
}

export class Preparation {
  readonly #options: PreparationOptions;
  #prepared = false;
  /** Why it was refused, as last logged. */
  #said: string | undefined;

  constructor(options: PreparationOptions) {
    this.#options = options;
    options.context.control.onNewSession(() => void this.#prepare());
  }

  readiness(): Readiness {
    const { clock, leaving, context, format } = this.#options;
    const { disconnectedSince: away, refusal, failures } = context.control;
    const lasted = (since = Infinity): number => clock.monotonic() - since;
    const reasons: string[] = [];
    if (leaving.aborted) reasons.push('It is shutting down.');
    const why = failures.length === 0 ? '' : ` (${failures.join('; ')})`;
    if (format.refused !== undefined) reasons.push(format.refused.message);
    else if (!this.#prepared) reasons.push(`ZooKeeper has not been reached yet${why}.`);
    else if (lasted(away) >= NOT_READY_AFTER_MS)
      reasons.push(`ZooKeeper has been away for ${Math.round(lasted(away) / SECOND)} s${why}.`);
    else if (lasted(refusal?.since) >= NOT_READY_AFTER_MS)
      reasons.push(
        `The new session has not been registered below the fencing floor for ${Math.round(lasted(refusal?.since) / SECOND)} s (${refusal?.cause.message}): nothing is done until it is.`,
      );
    return { ready: reasons.length === 0, reasons };
  }

  /** Creates what every request relies on, and reads what it needs to know, once the ensemble is reachable. */
  async #prepare(): Promise<void> {
    const { context, format, keys, bounds, requestTimeoutMs, draining, onPrepared } = this.#options;
    const { control, layout } = context;
    try {
      const deadline = performance.now() + requestTimeoutMs;
      await control.ensureChroot(deadline);
      await control.ensurePath(layout.root, deadline);
      await format.check(deadline);
      await control.ensurePath(layout.namespaces, deadline);
      // Before its first write a replica knows only its own clock, which says nothing about waits and deadlines.
      await askTime(context, deadline);
      await keys.ring(deadline);
      await bounds.read(deadline);
      if (!this.#prepared && !draining.aborted) onPrepared();
      this.#prepared = true;
    } catch (error) {
      if (draining.aborted) return;
      // The control session has logged already that no server is serving.
      if (control.disconnectedSince === undefined) this.#warn(error as Error);
      setTimeout(() => void this.#prepare(), SECOND).unref();
    }
  }

  /** What is waited for is no fault, and may last: it is said once, and again when it is something else. */
  #warn(error: Error): void {
    const { format, logger } = this.#options;
    const { message } = error;
    if (error !== format.refused)
      logger.warn({ err: error }, 'connected to ZooKeeper, but preparing it failed; retrying');
    else if (message !== this.#said)
      logger.warn({ reason: message }, 'connected to ZooKeeper, but nothing is done there yet; retrying');
    this.#said = error === format.refused ? message : undefined;
  }
}
