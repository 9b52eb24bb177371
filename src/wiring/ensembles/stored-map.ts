/**
 * The map as it is stored in one ensemble, kept up to date by one watch. A namespace is served on an ensemble only if
 * the map that is stored there says so.
 *
 * Layout:  <root>/ensembles   the map, and the name of this ensemble in it (persistent)
 */
import type { Layout } from '../../leases/layout.js';
import { keepLooking } from '../../recipes/observing/keep-looking.js';
import { SECOND } from '../../time.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { unless } from '../../zookeeper/errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { EnsembleMap, mapPath, parseStored } from './map.js';

const READ_MS = 10 * SECOND;

export interface StoredMapOptions {
  /** Of the ensemble. */
  readonly name: string;
  readonly control: ControlSession;
  readonly layout: Pick<Layout, 'root'>;
  /** Called after each reading. */
  readonly onRead: () => void;
  readonly onFault: (error: unknown) => void;
}

export class StoredMap {
  readonly #options: StoredMapOptions;
  readonly #path: string;
  readonly #stop = new AbortController();
  #map = EnsembleMap.NONE;
  #nodeVersion: number | undefined;
  #refused: string | undefined;
  #isKnown = false;
  #told!: () => void;
  readonly #known = new Promise<void>((resolve) => (this.#told = resolve));

  constructor(options: StoredMapOptions) {
    this.#options = options;
    this.#path = mapPath(options.layout.root);
  }

  /** As last read; before that, and where none is stored, `EnsembleMap.NONE`. */
  get map(): EnsembleMap {
    return this.#map;
  }

  /** Whether it has been read. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Why what is stored here is not this ensemble's map, in a sentence; then nothing is served here. */
  get refused(): string | undefined {
    return this.#refused;
  }

  /** Resolves once it has been read. @throws NoReplyError at the deadline, monotonic */
  untilKnown(deadline: number): void | Promise<void> {
    if (!this.#isKnown) return byDeadline(this.#known, deadline, 'the map of namespaces');
  }

  start(): void {
    void keepLooking(this.#stop.signal, (signal) => this.#look(signal), this.#options.onFault);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Reads it behind all that has been written. @throws NoReplyError */
  async refresh(deadline: number): Promise<void> {
    const { control } = this.#options;
    const zk = control.until(deadline);
    this.#take(await zk.fresh(() => zk.find(this.#path)));
  }

  /**
   * Stores a map in place of the one that was read last.
   * @returns false if that is not there any more: it has been read again then
   * @throws NoReplyError
   */
  async replace(map: EnsembleMap, deadline: number): Promise<boolean> {
    const { control, name } = this.#options;
    const zk = control.until(deadline);
    const data = map.encode(name);
    const written =
      this.#nodeVersion === undefined
        ? await unless(zk.create(this.#path, data), 'NODE_EXISTS')
        : await unless(zk.set(this.#path, data, this.#nodeVersion), 'BAD_VERSION', 'NO_NODE');
    await this.refresh(deadline);
    return written !== undefined;
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { control, onRead } = this.#options;
    const deadline = performance.now() + READ_MS;
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    signal.addEventListener('abort', wake, { once: true });
    const kept: { cancel(): void }[] = [];
    try {
      await control.until(deadline).sync(this.#path);
      const present = await control.watches.getData(this.#path, wake, deadline);
      if (present.watch !== undefined) kept.push(present.watch);
      else {
        const absent = await control.watches.exists(this.#path, wake, deadline);
        if (absent.watch !== undefined) kept.push(absent.watch);
        if (absent.value !== undefined) return;
      }
      this.#take(present.value);
      this.#isKnown = true;
      this.#told();
      onRead();
      if (!signal.aborted) await woken;
    } finally {
      signal.removeEventListener('abort', wake);
      for (const watch of kept) watch.cancel();
    }
  }

  #take(node: NodeData | undefined): void {
    this.#nodeVersion = node?.stat.version;
    this.#refused = undefined;
    if (node === undefined) {
      this.#map = EnsembleMap.NONE;
      return;
    }
    const { name } = this.#options;
    try {
      const { map, ensemble } = parseStored(node.data);
      this.#map = map;
      if (ensemble !== name)
        this.#refused = `The data there belong to the ensemble "${ensemble}" of the file of ensembles, not to "${name}".`;
    } catch (error) {
      this.#refused = `${this.#path} there is not a map of namespaces: ${(error as Error).message}.`;
    }
  }
}
