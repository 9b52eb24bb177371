/**
 * Where watches are set: a hub on the control session (`lease/absence.ts` has the only other ones). So a lease that
 * moves to another replica breaks no wait, and a thousand requests for one path cost ZooKeeper one watch.
 *
 * A watch here is level-triggered. Its listener is called at most once, also (with `reset`) when the control session
 * was replaced, and then reads again. Nothing may be concluded from the event itself.
 *
 * - Waits for the end of a node set their watch by `getData`: an `exists` on a missing node would leave a watch behind.
 * - After a reconnect within the session the watches are set again ahead of all other requests, in batches below the
 *   packet limit (defect 12), and the server reports what was missed.
 * - After the session was replaced every listener is called with `reset`.
 * - A watch that nobody listens to any more is removed from the server (defect 21).
 *
 * Persistent watches call their listener for every event, and with `reset` after every reconnect, because the server
 * does not report what they missed.
 */
import type { ZooKeeperObserver } from './client.js';
import { isReason } from './errors.js';
import type { Listing, NodeData, Operation, PersistentWatchMode, Stat } from './operations.js';
import * as nodes from './operations/nodes.js';
import { addWatch, removeWatches, setWatches, type WatchedPaths } from './operations/watches.js';
import { parentOf } from './paths.js';

/** As in ZooKeeper's own client: far below jute.maxbuffer, however many watches there are. */
const REARM_BATCH_BYTES = 128 * 1024;

export type WatchEventType = 'created' | 'deleted' | 'changed' | 'children' | 'reset';

export interface WatchEvent {
  type: WatchEventType;
  path: string;
  /** The zxid that caused it if the server tells (3.9 and later), else -1. */
  zxid: number;
}

export type WatchListener = (event: WatchEvent) => void;

/** A registered listener. Both methods are idempotent; after the event there is nothing to do. */
export interface Watch {
  /** Stops listening, and removes the watch from the server if nobody else listens. */
  cancel(): void;
  /** Stops listening but leaves the watch to its event: cheaper if that is certain to come soon. */
  forget(): void;
}

export interface Watched<T> {
  /** Undefined: there is no such node (and no watch, unless the method says otherwise). */
  value: T | undefined;
  /** How new the server's state was: see C2 in docs/protocol.md. */
  zxid: number;
  watch: Watch | undefined;
}

const EVENT_TYPES: Readonly<Record<number, Exclude<WatchEventType, 'reset'>>> = {
  1: 'created',
  2: 'deleted',
  3: 'changed',
  4: 'children',
};

interface Listener {
  readonly onEvent: WatchListener;
}

interface Entry {
  path: string;
  kind: 'data' | 'children';
  /** The server holds the watch: a reply has confirmed it. */
  armed: boolean;
  /** The node did not exist when the watch was set. */
  missing: boolean;
  readonly listeners: Set<Registration>;
}

/**
 * A listener of one watch: one function may wait twice, and each wait is cancelled by itself. A class, because there is
 * one for each waiting request.
 */
class Registration implements Watch {
  readonly onEvent: WatchListener;
  readonly #entry: Entry;
  readonly #hub: WatchHub;

  constructor(hub: WatchHub, entry: Entry, onEvent: WatchListener) {
    this.onEvent = onEvent;
    this.#entry = entry;
    this.#hub = hub;
  }

  cancel(): void {
    this.#hub.unlisten(this.#entry, this);
  }

  forget(): void {
    this.#entry.listeners.delete(this);
  }
}

/** How to read a node and watch what was read. */
interface Reading<T> {
  kind: Entry['kind'];
  operation: (path: string) => Operation<T>;
  /** How new the server's state was. */
  zxidOf: (value: T) => number;
  /** Whether the server keeps the watch if there is no such node. */
  staysWhenMissing: boolean;
}

const DATA: Reading<NodeData> = {
  kind: 'data',
  operation: (path) => nodes.getData(path, true),
  zxidOf: ({ zxid }) => zxid,
  staysWhenMissing: false,
};
const CHILDREN: Reading<Listing> = {
  kind: 'children',
  operation: (path) => nodes.getChildren(path, true),
  zxidOf: ({ zxid }) => zxid,
  staysWhenMissing: false,
};
const PRESENCE: Reading<Stat> = {
  kind: 'data',
  operation: nodes.existsWatch,
  zxidOf: () => -1,
  staysWhenMissing: true,
};

type Submit = <T>(operation: Operation<T>, deadline: number | undefined) => Promise<T>;

export class WatchHub {
  readonly #data = new Map<string, Entry>();
  readonly #children = new Map<string, Entry>();
  readonly #persistent = new Map<string, { mode: PersistentWatchMode; listeners: Set<Listener> }>();
  readonly #submit: Submit;
  readonly #submitNow: Submit;
  readonly #full: (path: string) => string;
  readonly #observer: ZooKeeperObserver;

  /**
   * @param submit sends a request, waiting for a connection if need be
   * @param submitNow fails if there is no connection: a removal that waited could hit a watch that is set meanwhile
   */
  constructor(submit: Submit, submitNow: Submit, full: (path: string) => string, observer: ZooKeeperObserver) {
    this.#submit = submit;
    this.#submitNow = submitNow;
    this.#full = full;
    this.#observer = observer;
  }

  /** Number of watches that the server should hold for this hub. */
  get size(): number {
    return this.#data.size + this.#children.size + this.#persistent.size;
  }

  /** Reads a node and watches its data and its end. If there is no node, no watch stays. */
  getData(path: string, listener: WatchListener, deadline?: number): Promise<Watched<NodeData>> {
    return this.#watch(DATA, this.#full(path), listener, deadline);
  }

  /** Reads the children and watches for a change of the set. If there is no node, no watch stays. */
  getChildren(path: string, listener: WatchListener, deadline?: number): Promise<Watched<Listing>> {
    return this.#watch(CHILDREN, this.#full(path), listener, deadline);
  }

  /** Watches for the creation, a change or the end of a node; the watch stays even if there is no node. */
  exists(path: string, listener: WatchListener, deadline?: number): Promise<Watched<Stat>> {
    return this.#watch(PRESENCE, this.#full(path), listener, deadline);
  }

  /** Calls `listener` for every event on `path`, or below it too, until cancelled. */
  async persistent(path: string, mode: PersistentWatchMode, onEvent: WatchListener, deadline?: number): Promise<Watch> {
    const full = this.#full(path);
    const listener: Listener = { onEvent };
    const entry = this.#persistent.get(full) ?? { mode, listeners: new Set() };
    if (entry.mode !== mode) throw new Error(`${path} is already watched as ${entry.mode}`);
    entry.listeners.add(listener);
    this.#persistent.set(full, entry);
    this.#count();
    const cancel = (): void => {
      if (!entry.listeners.delete(listener) || entry.listeners.size > 0) return;
      this.#persistent.delete(full);
      this.#count();
      this.#removeFromServer(full, 'any');
      // That removed the node's one-shot watches too, even those about to be set: their listeners read again, and set
      // them again.
      for (const entries of [this.#data, this.#children])
        this.#fire(entries, full, { type: 'reset', path: full, zxid: -1 });
    };
    const watch: Watch = { cancel, forget: cancel };
    try {
      await this.#submit(addWatch(full, mode), deadline);
    } catch (error) {
      cancel();
      throw error;
    }
    return watch;
  }

  /** A notification from the server, with the absolute path. */
  dispatch(type: number, path: string, zxid: number): void {
    const name = EVENT_TYPES[type];
    if (name === undefined) return; // the echo of a removed watch
    this.#observer.watchEvent(name);
    const event: WatchEvent = { type: name, path, zxid };
    if (name !== 'children') this.#fire(this.#data, path, event);
    if (name === 'children' || name === 'deleted') this.#fire(this.#children, path, event);
    this.#firePersistent(path, event);
  }

  /** The session was replaced: everything watched must be read again. */
  reset(): void {
    const lost = [...this.#data.values(), ...this.#children.values()].filter((entry) => entry.armed);
    for (const entry of lost) {
      this.#observer.watchEvent('reset');
      this.#fire(this.#entries(entry.kind), entry.path, { type: 'reset', path: entry.path, zxid: -1 });
    }
  }

  /** The requests that set all watches again on a new connection. */
  rearm(lastZxid: number): Operation<unknown>[] {
    const batches: Batch[] = [];
    let batch: Batch | undefined;
    const add = (list: keyof WatchedPaths, path: string): void => {
      const bytes = Buffer.byteLength(path) + 4;
      if (batch === undefined || batch.bytes + bytes > REARM_BATCH_BYTES) batches.push((batch = emptyBatch()));
      batch.paths[list].push(path);
      batch.bytes += bytes;
    };
    for (const entry of this.#data.values()) if (entry.armed) add(entry.missing ? 'exist' : 'data', entry.path);
    for (const entry of this.#children.values()) if (entry.armed) add('children', entry.path);
    for (const [path, { mode }] of this.#persistent) add(mode === 'persistent' ? 'persistent' : 'recursive', path);
    return batches.map(({ paths }) => setWatches(paths, lastZxid));
  }

  /** After every reconnect: persistent watches are set again, but what they missed is not reported. */
  resetPersistent(): void {
    for (const [path, { listeners }] of this.#persistent)
      call(listeners, { type: 'reset', path, zxid: -1 }, this.#observer);
  }

  async #watch<T>(
    reading: Reading<T>,
    path: string,
    onEvent: WatchListener,
    deadline: number | undefined,
  ): Promise<Watched<T>> {
    const { kind } = reading;
    const entries = this.#entries(kind);
    const entry = entries.get(path) ?? { path, kind, armed: false, missing: false, listeners: new Set() };
    const watch = new Registration(this, entry, onEvent);
    entry.listeners.add(watch);
    entries.set(path, entry);
    this.#count();
    try {
      const value = await this.#submit(reading.operation(path), deadline);
      this.#arm(entry, false);
      return { value, zxid: reading.zxidOf(value), watch };
    } catch (error) {
      const missing = isReason(error, 'NO_NODE');
      if (missing && reading.staysWhenMissing) {
        this.#arm(entry, true);
        return { value: undefined, zxid: error.zxid, watch };
      }
      watch.cancel();
      if (missing) return { value: undefined, zxid: error.zxid, watch: undefined };
      throw error;
    }
  }

  #entries(kind: Entry['kind']): Map<string, Entry> {
    return kind === 'data' ? this.#data : this.#children;
  }

  /** The server has confirmed the watch. */
  #arm(entry: Entry, missing: boolean): void {
    entry.armed = true;
    entry.missing = missing;
    this.#keepPersistent(entry.path);
  }

  /**
   * Before 3.9 a one-shot watch replaces a persistent one on the same node: that is set again behind it
   * (ZOOKEEPER-4466).
   */
  #keepPersistent(path: string): void {
    const entry = this.#persistent.get(path);
    if (entry !== undefined) this.#submitNow(addWatch(path, entry.mode), undefined).catch(() => undefined);
  }

  /** For the listeners' own `cancel`. */
  unlisten(entry: Entry, registration: Registration): void {
    const entries = this.#entries(entry.kind);
    if (!entry.listeners.delete(registration) || entry.listeners.size > 0 || entries.get(entry.path) !== entry) return;
    entries.delete(entry.path);
    this.#count();
    // Before 3.9 the server has one watch per node and session (ZOOKEEPER-4466): the persistent one would go too.
    if (entry.armed && !this.#persistent.has(entry.path)) this.#removeFromServer(entry.path, entry.kind);
  }

  /** Ordered by the connection: a watch that is set later is not touched. Nothing depends on the outcome. */
  #removeFromServer(path: string, type: 'data' | 'children' | 'any'): void {
    this.#submitNow(removeWatches(path, type), performance.now() + 1_000).catch(() => undefined);
  }

  #fire(entries: Map<string, Entry>, path: string, event: WatchEvent): void {
    const entry = entries.get(path);
    if (entry === undefined) return;
    entries.delete(path);
    this.#count();
    const listeners = [...entry.listeners];
    entry.listeners.clear();
    call(listeners, event, this.#observer);
  }

  #firePersistent(path: string, event: WatchEvent): void {
    if (this.#persistent.size === 0) return;
    const exact = this.#persistent.get(path);
    if (exact !== undefined) call(exact.listeners, event, this.#observer);
    for (let above = path; above !== '/';) {
      above = parentOf(above);
      const entry = this.#persistent.get(above);
      if (entry?.mode === 'persistent-recursive') call(entry.listeners, event, this.#observer);
    }
  }

  #count(): void {
    this.#observer.watches(this.size);
  }
}

/**
 * `Promise.all` for setting watches: it rejects only once all others have settled too, so that a caller that cancels
 * what was set leaves no watch behind that is set later.
 */
export async function allWatched<T>(readings: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(readings);
  return Promise.all(readings);
}

/** The paths that one request sets again. */
interface Batch {
  bytes: number;
  paths: WatchedPaths;
}

function emptyBatch(): Batch {
  return { bytes: 0, paths: { data: [], exist: [], children: [], persistent: [], recursive: [] } };
}

function call(listeners: Iterable<Listener>, event: WatchEvent, observer: ZooKeeperObserver): void {
  for (const listener of listeners) {
    try {
      listener.onEvent(event);
    } catch (error) {
      observer.listenerFailed(error);
    }
  }
}
