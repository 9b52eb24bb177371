/**
 * Drops messages that are older than messages are kept, and removes logs that have none and have not changed for long.
 * Of a log whose oldest message is young only that one is read, 24 times per that time. Everything is written at the
 * version that was read, so a post that comes in between wins; and no write at a version of a removed log is in flight
 * by then, which could be done to a new one of that name (C31).
 */
import { HOUR } from '../../../time.js';
import { askTime } from '../../../zookeeper/ensemble-time.js';
import { unless } from '../../../zookeeper/errors.js';
import { parentOf } from '../../../zookeeper/paths.js';
import { readNodes } from '../../../zookeeper/read-nodes.js';
import type { Coordination } from '../../coordination.js';
import type { Chore } from '../../housekeeping/housekeeping.js';
import type { Sweep } from '../../housekeeping/sweep.js';
import { decodeLog, messagePath, writeLog, type Log, type LogRef } from './log.js';

const SWEEPS_PER_AGE = 24;
const AT_ONCE = 100;
const NO_DATA = new Uint8Array(0);

export class TidyMessages implements Chore {
  readonly #context: Coordination;
  readonly #ageMs: number;
  readonly #emptyMs: number;
  #dueAt = 0;

  /**
   * @param ageMs how long a message is kept
   * @param emptyMs how long a log without messages is kept after its last change
   */
  constructor(context: Coordination, ageMs: number, emptyMs = HOUR) {
    this.#context = context;
    this.#ageMs = ageMs;
    this.#emptyMs = emptyMs;
  }

  async sweep(sweep: Sweep): Promise<void> {
    if (performance.now() < this.#dueAt) return;
    const { layout } = this.#context;
    let now: number | undefined;
    await sweep.eachNamespace(async (namespace) => {
      const names = await sweep.children(layout.allGroupMessages(namespace));
      if (names.length === 0) return;
      now ??= (await askTime(this.#context, sweep.deadline())).mtime;
      const then = now;
      await sweep.each(names, (name) =>
        this.#tidy({ namespace, name, path: layout.groupMessages(namespace, name) }, then, sweep),
      );
    });
    if (!sweep.stopped) this.#dueAt = performance.now() + this.#ageMs / SWEEPS_PER_AGE;
  }

  async #tidy(ref: LogRef, now: number, sweep: Sweep): Promise<void> {
    const node = await sweep.zk().find(ref.path);
    if (node === undefined) return;
    const log = decodeLog(ref.name, node);
    if (log.first < log.next) await this.#dropOld(ref, log, now - this.#ageMs, sweep);
    else if (node.stat.mtime < now - this.#emptyMs) await this.#remove(ref, log, sweep);
  }

  /** The oldest, as far as they lie before `before`. */
  async #dropOld(ref: LogRef, log: Log, before: number, sweep: Sweep): Promise<void> {
    for (let { first, version } = log, size = 1; first < log.next && !sweep.stopped; size = AT_ONCE) {
      const count = Math.min(size, log.next - first);
      const paths = Array.from({ length: count }, (_, i) => messagePath(ref, first + i));
      const nodes = await readNodes(sweep.zk(), paths);
      // What is not there was removed by somebody else, and is passed over.
      const young = nodes.findIndex((message) => message !== undefined && message.stat.ctime >= before);
      const old = young < 0 ? count : young;
      if (old === 0) return;
      const there = paths.slice(0, old).filter((_, i) => nodes[i] !== undefined);
      const written = await unless(
        sweep
          .zk()
          .multi([
            writeLog(ref, { ...log, version }, { first: first + old }),
            ...there.map((path) => ({ type: 'delete' as const, path })),
          ]),
        'BAD_VERSION',
        'NO_NODE',
      );
      if (written === undefined) return;
      this.#context.metrics.groupMessagesTotal.inc({ outcome: 'expired' }, there.length);
      if (young >= 0) return;
      first += old;
      version += 1;
    }
  }

  /** Cursors from before know by the directory's last write that a log was removed since (`read.ts`). */
  async #remove(ref: LogRef, { version }: Log, sweep: Sweep): Promise<void> {
    await unless(
      sweep.zk().multi([
        { type: 'setData', path: parentOf(ref.path), data: NO_DATA },
        { type: 'delete', path: ref.path, version },
      ]),
      'BAD_VERSION',
      'NO_NODE',
      'NOT_EMPTY',
    );
  }
}
