/**
 * The map as it is stored in one ensemble, kept up to date by one watch. A namespace is served on an ensemble only if
 * the map that is stored there says so, and only if it is the one that `default` knows by that name: each has a random
 * id, which is stored in it and in `default`.
 *
 * Layout:  <root>/ensembles   the map, the name of this ensemble in it, and its id; in `default` the ids of all
 *                             (persistent)
 */
import type { Layout } from '../../leases/layout.js';
import { keepLooking } from '../../recipes/observing/keep-looking.js';
import { SECOND } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { unless } from '../../zookeeper/errors.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import { DEFAULT_ENSEMBLE, EnsembleMap, mapPath, parseStored, type EnsembleIds } from './map.js';

const READ_MS = 10 * SECOND;

export interface StoredMapOptions {
  /** Of the ensemble. */
  readonly name: string;
  /** The map of `default`; undefined: it is this one. */
  readonly home?: StoredMap | undefined;
  readonly control: ControlSession;
  readonly layout: Pick<Layout, 'root'>;
  /** Called with what was read, before anything else is done. */
  readonly onTaken: () => void;
  /** Called when it has been read without being asked: it may have changed. */
  readonly onRead: () => void;
  readonly onFault: (error: unknown) => void;
}

export class StoredMap {
  readonly #options: StoredMapOptions;
  readonly #path: string;
  readonly #stop = new AbortController();
  #map = EnsembleMap.NONE;
  #ids: EnsembleIds = {};
  #nodeVersion: number | undefined;
  #unusable: string | undefined;
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

  /** Whether there is one; before it has been read, it is not. */
  get isStored(): boolean {
    return this.#nodeVersion !== undefined;
  }

  /** Whether it has been read, and that of `default` as well. */
  get isKnown(): boolean {
    return this.#isKnown && (this.#options.home?.isKnown ?? true);
  }

  /** Why what is stored here is not the map of an ensemble of this name, in a sentence. */
  get unusable(): string | undefined {
    return this.#unusable;
  }

  /** Why nothing is served here, in a sentence: it is unusable, or this is not the ensemble of this name. */
  get refused(): string | undefined {
    return this.#unusable ?? this.#stranger();
  }

  /** What is stored here as the id of an ensemble. */
  idOf(ensemble: string): string | undefined {
    return Object.hasOwn(this.#ids, ensemble) ? this.#ids[ensemble] : undefined;
  }

  /** Whether it has been read, and is that of the ensemble of its name. */
  get isTrusted(): boolean {
    return this.isKnown && this.refused === undefined;
  }

  /** Resolves once it `isKnown`. @throws NoReplyError at the deadline, monotonic */
  async untilKnown(deadline: number): Promise<void> {
    if (!this.#isKnown) await byDeadline(this.#known, deadline, 'the map of namespaces');
    await this.#options.home?.untilKnown(deadline);
  }

  /**
   * Reads it for the first time, or anew on a further session: once this process is registered there, and before
   * anything else is done. What has been closed since is not served any more, whatever was known before.
   * @throws NoReplyError
   */
  async readFirst(zk: BoundClient): Promise<void> {
    await zk.sync(this.#path);
    this.#take(await zk.find(this.#path));
    this.#isKnown = true;
    this.#told();
    this.#options.onRead();
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
   * @param checks what must hold as well
   * @returns false if that is not there any more, or a check fails: it has been read again then
   * @throws NoReplyError
   */
  replace(map: EnsembleMap, deadline: number, checks: readonly MultiOperation[] = []): Promise<boolean> {
    return this.#write(map, this.#ids, deadline, checks);
  }

  /** Stores the id of an ensemble, as `replace` stores a map. Only where none is stored. */
  identify(ensemble: string, id: string, deadline: number): Promise<boolean> {
    return this.#write(this.#map, { ...this.#ids, [ensemble]: id }, deadline, []);
  }

  async #write(
    map: EnsembleMap,
    ids: EnsembleIds,
    deadline: number,
    checks: readonly MultiOperation[],
  ): Promise<boolean> {
    const { control, name } = this.#options;
    const [path, version] = [this.#path, this.#nodeVersion];
    const data = map.encode(name, ids);
    const write: MultiOperation =
      version === undefined ? { type: 'create', path, data } : { type: 'setData', path, data, version };
    const done = control.until(deadline).multi([...checks, write]);
    const written = await unless(done, 'NODE_EXISTS', 'BAD_VERSION', 'NO_NODE');
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
      onRead();
      if (!signal.aborted) await woken;
    } finally {
      signal.removeEventListener('abort', wake);
      for (const watch of kept) watch.cancel();
    }
  }

  #take(node: NodeData | undefined): void {
    this.#parse(node);
    this.#options.onTaken();
  }

  #parse(node: NodeData | undefined): void {
    this.#nodeVersion = node?.stat.version;
    this.#unusable = undefined;
    if (node === undefined) {
      this.#map = EnsembleMap.NONE;
      this.#ids = {};
      return;
    }
    const { name } = this.#options;
    try {
      const { map, ensemble, ids } = parseStored(node.data);
      this.#map = map;
      this.#ids = ids;
      if (ensemble !== name)
        this.#unusable = `The data there belong to the ensemble "${ensemble}" of the file of ensembles, not to "${name}".`;
    } catch (error) {
      this.#unusable = `${this.#path} there is not a map of namespaces: ${(error as Error).message}.`;
    }
  }

  #stranger(): string | undefined {
    const { home, name } = this.#options;
    if (home === undefined) return undefined;
    const id = home.idOf(name);
    if (id === undefined) return `"${DEFAULT_ENSEMBLE}" does not know this ensemble yet.`;
    if (id === this.idOf(name)) return undefined;
    return `It is another ensemble than the one that "${name}" stands for: correct "zookeeper" of "${name}" in the file of ensembles, and start this replica again.`;
  }
}
