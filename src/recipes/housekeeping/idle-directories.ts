/**
 * Removes directories whose children come and go, for the chores of recipes that have such: after an hour without a
 * child (ADR 3). If one is created at that moment, the deletion fails by itself.
 */
import type { Coordination } from '../coordination.js';
import { IdleTimes, type Idle } from './idle-times.js';
import { quietly, type Sweep } from './sweep.js';
import type { BoundClient } from '../../zookeeper/bound.js';

export class IdleDirectories {
  readonly #context: Coordination;
  readonly #idleMs: number;
  readonly #remnant: string | undefined;
  readonly #idle = new IdleTimes<Idle>();

  /** @param remnant the name of a persistent node that may be left in a directory although nobody is in it */
  constructor(context: Coordination, idleMs: number, remnant?: string) {
    this.#context = context;
    this.#idleMs = idleMs;
    this.#remnant = remnant;
  }

  /** One round over the directories below one parent in each namespace. */
  sweep(sweep: Sweep, parentIn: (namespace: string) => string): Promise<void> {
    return this.#idle.sweep(
      sweep,
      (namespace) => [{ path: parentIn(namespace) }],
      (directory, before) => this.#tidy(sweep.zk(), directory, before),
    );
  }

  async #tidy(zk: BoundClient, directory: string, before: Idle | undefined): Promise<Idle | undefined> {
    const stat = await zk.exists(directory);
    if (stat === undefined || stat.numChildren > 1) return undefined;
    const remnant = stat.numChildren === 1 ? `${directory}/${this.#remnant}` : undefined;
    if (remnant !== undefined && !(await this.#isRemnant(zk, remnant))) return undefined;
    const idle = before?.pzxid === stat.pzxid ? before : { pzxid: stat.pzxid, since: performance.now() };
    if (performance.now() - idle.since < this.#idleMs) return idle;
    await quietly(
      zk.multi([
        { type: 'check', path: directory, version: stat.version },
        ...(remnant === undefined ? [] : [{ type: 'delete' as const, path: remnant }]),
        { type: 'delete', path: directory },
      ]),
    );
    return undefined;
  }

  async #isRemnant(zk: BoundClient, path: string): Promise<boolean> {
    if (this.#remnant === undefined) return false;
    // Somebody who is called so is ephemeral.
    return (await zk.exists(path))?.ephemeralOwner === 0n;
  }
}
