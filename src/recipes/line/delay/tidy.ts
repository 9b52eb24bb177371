/**
 * Housekeeping of lock-delays: discovers lost holds that nobody wants, so that their delays begin; removes marks whose
 * time has passed, and what is left of lines that no longer exist (`lock-delay.ts`).
 */
import { DELAYED_KINDS, lockDelaysOf } from '../../../leases/layout.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { Coordination } from '../../coordination.js';
import type { Chore } from '../../housekeeping/housekeeping.js';
import type { Sweep } from '../../housekeeping/sweep.js';
import { findDelay } from './lock-delay.js';

export class TidyLockDelays implements Chore {
  readonly #context: Coordination;

  constructor(context: Coordination) {
    this.#context = context;
  }

  sweep(sweep: Sweep): Promise<void> {
    const { layout } = this.#context;
    return sweep.eachNamespace(async (namespace) => {
      for (const kind of DELAYED_KINDS) {
        const names = await sweep.children(layout.delayedLines(kind, namespace));
        await sweep.each(names, (name) => this.#tidy(sweep.zk(), layout.line(kind, namespace, name)));
      }
    });
  }

  async #tidy(zk: BoundClient, line: string): Promise<void> {
    await findDelay(this.#context, zk, line, {});
    // While the line exists it says that delays are in use, and its next grant would make the directory again.
    if ((await zk.exists(line)) !== undefined) return;
    try {
      await zk.remove(lockDelaysOf(line));
    } catch (error) {
      if (!isReason(error, 'NOT_EMPTY', 'NO_NODE')) throw error; // a delay runs, or somebody grants one
    }
  }
}
