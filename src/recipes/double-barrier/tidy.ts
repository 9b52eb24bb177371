/**
 * Housekeeping of double barriers in which nobody has been for long, with the round that is left over when all of it
 * have died.
 */
import type { Coordination } from '../coordination.js';
import type { Chore } from '../housekeeping/housekeeping.js';
import { IdleDirectories } from '../housekeeping/idle-directories.js';
import type { Sweep } from '../housekeeping/sweep.js';
import { READY } from './round.js';

export class TidyDoubleBarriers implements Chore {
  readonly #context: Coordination;
  readonly #directories: IdleDirectories;

  constructor(context: Coordination, idleMs: number) {
    this.#context = context;
    this.#directories = new IdleDirectories(context, idleMs, READY);
  }

  sweep(sweep: Sweep): Promise<void> {
    return this.#directories.sweep(sweep, (namespace) => this.#context.layout.doubleBarriers(namespace));
  }
}
