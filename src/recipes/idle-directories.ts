/**
 * Housekeeping of directories whose children come and go: one in which nobody has been for an hour is removed (ADR 3). The deletion fails by
 * itself when somebody steps in at that moment. What lies beside a group that is gone goes too.
 */
import { unless, ZooKeeperError } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { Chore } from './housekeeping.js';

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
      for (const parent of [layout.groups(namespace)]) {
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
    const stat = await control.exists(directory, performance.now() + REQUEST_MS);
    if (stat === undefined || stat.numChildren > 0) return;
    const before = this.#idle.get(directory);
    const idle = before?.pzxid === stat.pzxid ? before : { pzxid: stat.pzxid, since: performance.now() };
    if (performance.now() - idle.since < this.#idleMs) {
      seen.set(directory, idle);
      return;
    }
    await this.#delete(directory);
  }

  /** Divisions of a group that has long been empty are of use to nobody. */
  async #tidyShares(namespace: string, group: string): Promise<void> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    await control.sync(layout.group(namespace, group), deadline);
    if ((await control.exists(layout.group(namespace, group), deadline)) !== undefined) return;
    const directory = layout.sharesOf(namespace, group);
    for (const of of await this.#children(directory)) await this.#delete(`${directory}/${of}`);
    await this.#delete(directory);
  }

  async #delete(path: string): Promise<void> {
    try {
      await this.#context.control.delete(path, undefined, performance.now() + REQUEST_MS);
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
