/**
 * What housekeeping does about lock-delays: a hold that was lost and that nobody wants is found lost, so that its delay begins; marks whose time
 * has passed are removed; and so is what is left of a line that does not exist any more (`lock-delay.ts`).
 */
import { DELAYED_KINDS, lockDelaysOf, type LineKind } from '../leases/layout.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { Chore } from './housekeeping.js';
import { findDelay } from './lock-delay.js';

const REQUEST_MS = 10_000;
const AT_ONCE = 64;

export class TidyLockDelays implements Chore {
  readonly #context: Coordination;

  constructor(context: Coordination) {
    this.#context = context;
  }

  async sweep(stopped: () => boolean): Promise<void> {
    const { layout } = this.#context;
    for (const namespace of await this.#children(layout.namespaces)) {
      for (const kind of DELAYED_KINDS) {
        const names = await this.#children(layout.delayedLines(kind, namespace));
        for (let i = 0; i < names.length && !stopped(); i += AT_ONCE)
          await Promise.all(names.slice(i, i + AT_ONCE).map((name) => this.#tidy(kind, namespace, name)));
      }
    }
  }

  async #tidy(kind: LineKind, namespace: string, name: string): Promise<void> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    const line = layout.line(kind, namespace, name);
    await findDelay(this.#context, line, {}, deadline);
    // While the line exists it says that delays are in use, and its next grant would make the directory again.
    if ((await control.exists(line, deadline)) !== undefined) return;
    try {
      await control.delete(lockDelaysOf(line), undefined, deadline);
    } catch (error) {
      if (!isReason(error, 'NOT_EMPTY', 'NO_NODE')) throw error; // a delay runs, or somebody grants one
    }
  }

  async #children(path: string): Promise<string[]> {
    const { control } = this.#context;
    return (await unless(control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? [];
  }
}
