/**
 * Housekeeping of directories whose children come and go: one in which nobody has been for an hour is removed (ADR 3). The deletion fails by
 * itself when somebody steps in at that moment. What lies beside a group that is gone goes too.
 */
import { unless, ZooKeeperError } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { Chore } from './housekeeping.js';
import { READY } from './round.js';

const AT_ONCE = 64;
const REQUEST_MS = 10_000;

interface Idle {
  /** The last change to the directory's children. */
  pzxid: number;
  /** Monotonic. */
  since: number;
}

export class IdleDirectories implements Chore {
  readonly #context: Coordination;
  readonly #idleMs: number;
  #idle = new Map<string, Idle>();

  constructor(context: Coordination, idleMs: number) {
    this.#context = context;
    this.#idleMs = idleMs;
  }

  async sweep(stopped: () => boolean): Promise<void> {
    const { layout } = this.#context;
    const seen = new Map<string, Idle>();
    for (const namespace of await this.#children(layout.namespaces)) {
      for (const parent of [layout.groups(namespace), layout.doubleBarriers(namespace)]) {
        const directories = (await this.#children(parent)).map((name) => `${parent}/${name}`);
        for (let i = 0; i < directories.length && !stopped(); i += AT_ONCE)
          await Promise.all(directories.slice(i, i + AT_ONCE).map((directory) => this.#tidy(directory, seen)));
      }
      for (const group of await this.#children(layout.allShares(namespace)))
        if (!stopped()) await this.#tidyShares(namespace, group);
    }
    this.#idle = seen;
  }

  async #tidy(directory: string, seen: Map<string, Idle>): Promise<void> {
    const { control } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    const stat = await control.exists(directory, deadline);
    if (stat === undefined || stat.numChildren > 1) return;
    // What a round of a double barrier leaves when all of it have died; a member that is called so elsewhere is ephemeral.
    const ready = stat.numChildren === 1 ? await control.exists(`${directory}/${READY}`, deadline) : undefined;
    if (stat.numChildren === 1 && ready?.ephemeralOwner !== 0n) return;
    const before = this.#idle.get(directory);
    const idle = before?.pzxid === stat.pzxid ? before : { pzxid: stat.pzxid, since: performance.now() };
    if (performance.now() - idle.since < this.#idleMs) {
      seen.set(directory, idle);
      return;
    }
    await this.#quietly(
      control.multi(
        [
          { type: 'check', path: directory, version: stat.version },
          ...(ready === undefined ? [] : [{ type: 'delete' as const, path: `${directory}/${READY}` }]),
          { type: 'delete', path: directory },
        ],
        deadline,
      ),
    );
  }

  /** Divisions of a group that has long been empty are of use to nobody. */
  async #tidyShares(namespace: string, group: string): Promise<void> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    await control.sync(layout.group(namespace, group), deadline);
    if ((await control.exists(layout.group(namespace, group), deadline)) !== undefined) return;
    const directory = layout.sharesOf(namespace, group);
    const paths = (await this.#children(directory)).map((of) => `${directory}/${of}`);
    for (const path of [...paths, directory]) await this.#quietly(control.delete(path, undefined, deadline));
  }

  async #quietly(deletion: Promise<unknown>): Promise<void> {
    try {
      await deletion;
    } catch (error) {
      if (!(error instanceof ZooKeeperError)) throw error; // somebody stepped in, or removed it
    }
  }

  async #children(path: string): Promise<string[]> {
    return (
      (await unless(this.#context.control.getChildren(path, performance.now() + REQUEST_MS), 'NO_NODE'))?.children ?? []
    );
  }
}
