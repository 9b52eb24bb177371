/**
 * The one place where watches are set: a hub on the control session. So a lease that moves to another
 * replica breaks no wait, and a thousand requests for one path cost ZooKeeper one watch.
 *
 * A watch here is level-triggered. Its listener is called at most once, with `reset` also when the control session
 * was replaced; whoever is called reads again. Nothing may be concluded from the event itself.
 *
 * - Set by `getData` where a node is waited for to go: an `exists` on a missing node would leave a watch behind.
 * - After a reconnect within the session the watches are set again ahead of all other requests, in batches below the
 *   packet limit (defect 12), and the server reports what was missed.
 * - After the session was replaced every listener is called with `reset`.
 * - A watch nobody listens to any more is removed from the server (defect 21).
 *
 * Persistent watches call their listener for every event, and with `reset` after every reconnect, because
 * the server does not report what they missed.
 */
import type { ZooKeeperObserver } from './client.js';
import { isReason } from './errors.js';
import * as operations from './operations.js';
import {
  OPCODE,
  type Listing,
  type NodeData,
  type Operation,
  type PersistentWatchMode,
  type Stat,
} from './operations.js';
import { parentOf } from './paths.js';

/** As ZooKeeper's own client: far below jute.maxbuffer, however many watches there are. */
const REARM_BATCH_BYTES = 128 * 1024;

export type WatchEventType = 'created' | 'deleted' | 'changed' | 'children' | 'reset';

export interface WatchEvent {
  type: WatchEventType;
  path: string;
  /** The zxid that caused it where the server tells (3.9 and later), else -1. */
  zxid: number;
}

export type WatchListener = (event: WatchEvent) => void;

/** A listener that is registered. Both methods are idempotent; after the event there is nothing to do. */
export interface Watch {
  /** Stops listening, and removes the watch from the server when nobody else listens. */
  cancel(): void;
  /** Stops listening and leaves the watch to its event: cheaper where that is certain to come soon. */
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

interface Entry {
  path: string;
  kind: 'data' | 'children';
  /** The server holds the watch: a reply has confirmed it. */
  armed: boolean;
  /** The node did not exist when the watch was set. */
  missing: boolean;
  listeners: Set<WatchListener>;
}

type Submit = <T>(operation: Operation<T>, deadline: number | undefined) => Promise<T>;

export class WatchHub {
  readonly #data = new Map<string, Entry>();
  readonly #children = new Map<string, Entry>();
  readonly #persistent = new Map<string, { mode: PersistentWatchMode; listeners: Set<WatchListener> }>();
  readonly #submit: Submit;
  readonly #submitNow: Submit;
  readonly #full: (path: string) => string;
  readonly #observer: ZooKeeperObserver;

  /**
   * @param submit sends a request, after waiting for a connection if need be
   * @param submitNow fails when there is no connection: a removal that waited could hit a watch that is set meanwhile
   */
  constructor(submit: Submit, submitNow: Submit, full: (path: string) => string, observer: ZooKeeperObserver) {
    this.#submit = submit;
    this.#submitNow = submitNow;
    this.#full = full;
    this.#observer = observer;
  }

  /** Watches that this hub believes the server to hold. */
  get size(): number {
    return this.#data.size + this.#children.size + this.#persistent.size;
  }

  /** Reads a node and watches its data and its end. No watch stays where there is no node. */
  getData(path: string, listener: WatchListener, deadline?: number): Promise<Watched<NodeData>> {
    const full = this.#full(path);
    return this.#watch(
      this.#data,
      'data',
      full,
      listener,
      operations.getData(full, true),
      deadline,
      false,
      (node) => node.zxid,
    );
  }

  /** Reads the children and watches for a change of the set. No watch stays where there is no node. */
  getChildren(path: string, listener: WatchListener, deadline?: number): Promise<Watched<Listing>> {
    const full = this.#full(path);
    return this.#watch(
      this.#children,
      'children',
      full,
      listener,
      operations.getChildren(full, true),
      deadline,
      false,
      (listing) => listing.zxid,
    );
  }

  /** Watches for the beginning, a change or the end of a node; the watch stays also when there is none. */
  exists(path: string, listener: WatchListener, deadline?: number): Promise<Watched<Stat>> {
    const full = this.#full(path);
    return this.#watch(this.#data, 'data', full, listener, operations.existsWatch(full), deadline, true, () => -1);
  }

  /** Calls `listener` for every event on `path`, or below it too, until cancelled. */
  async persistent(path: string, mode: PersistentWatchMode, onEvent: WatchListener, deadline?: number): Promise<Watch> {
    const full = this.#full(path);
    const listener = registration(onEvent);
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
      // That took the one-shot watches of the node with it: whoever waits for them reads again, and sets them again.
      for (const entries of [this.#data, this.#children]) {
        if (entries.get(full)?.armed === true) this.#fire(entries, full, { type: 'reset', path: full, zxid: -1 });
      }
    };
    const watch: Watch = { cancel, forget: cancel };
    try {
      await this.#submit(operations.addWatch(full, mode), deadline);
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

  /** The session was replaced: everything that was watched must be read again. */
  reset(): void {
    const lost = [...this.#data.values(), ...this.#children.values()].filter((entry) => entry.armed);
    for (const entry of lost) {
      this.#observer.watchEvent('reset');
      this.#fire(entry.kind === 'data' ? this.#data : this.#children, entry.path, {
        type: 'reset',
        path: entry.path,
        zxid: -1,
      });
    }
  }

  /** The requests that set all watches again on a new connection. */
  rearm(lastZxid: number): Operation<unknown>[] {
    const batches: SetWatches[] = [];
    let batch: SetWatches | undefined;
    const add = (list: keyof SetWatches['lists'], path: string): void => {
      const bytes = Buffer.byteLength(path) + 4;
      if (batch === undefined || batch.bytes + bytes > REARM_BATCH_BYTES) batches.push((batch = emptyBatch()));
      batch.lists[list].push(path);
      batch.bytes += bytes;
    };
    for (const entry of this.#data.values()) if (entry.armed) add(entry.missing ? 'exist' : 'data', entry.path);
    for (const entry of this.#children.values()) if (entry.armed) add('children', entry.path);
    for (const [path, { mode }] of this.#persistent) add(mode === 'persistent' ? 'persistent' : 'recursive', path);
    return batches.map(({ lists }) => setWatches(lists, lastZxid));
  }

  /** After every reconnect: persistent watches are set again, but what they missed is not reported. */
  resetPersistent(): void {
    for (const [path, { listeners }] of this.#persistent)
      call(listeners, { type: 'reset', path, zxid: -1 }, this.#observer);
  }

  async #watch<T>(
    entries: Map<string, Entry>,
    kind: Entry['kind'],
    path: string,
    onEvent: WatchListener,
    operation: Operation<T>,
    deadline: number | undefined,
    staysWhenMissing: boolean,
    zxidOf: (value: T) => number,
  ): Promise<Watched<T>> {
    const listener = registration(onEvent);
    const entry = entries.get(path) ?? { path, kind, armed: false, missing: false, listeners: new Set() };
    entry.listeners.add(listener);
    entries.set(path, entry);
    this.#count();
    const watch: Watch = {
      cancel: () => this.#cancel(entries, entry, listener),
      forget: () => void entry.listeners.delete(listener),
    };
    try {
      const value = await this.#submit(operation, deadline);
      entry.armed = true;
      entry.missing = false;
      this.#keepPersistent(path);
      return { value, zxid: zxidOf(value), watch };
    } catch (error) {
      const missing = isReason(error, 'NO_NODE');
      if (missing && staysWhenMissing) {
        entry.armed = true;
        entry.missing = true;
        this.#keepPersistent(path);
        return { value: undefined, zxid: error.zxid, watch };
      }
      this.#cancel(entries, entry, listener);
      if (missing) return { value: undefined, zxid: error.zxid, watch: undefined };
      throw error;
    }
  }

  /** Before 3.9 a one-shot watch replaces a persistent one of the same node: it is set again behind it (ZOOKEEPER-4466). */
  #keepPersistent(path: string): void {
    const entry = this.#persistent.get(path);
    if (entry !== undefined) this.#submitNow(operations.addWatch(path, entry.mode), undefined).catch(() => undefined);
  }

  #cancel(entries: Map<string, Entry>, entry: Entry, listener: WatchListener): void {
    if (!entry.listeners.delete(listener) || entry.listeners.size > 0 || entries.get(entry.path) !== entry) return;
    entries.delete(entry.path);
    this.#count();
    // Before 3.9 the server has one watch per node and session (ZOOKEEPER-4466): the persistent one would go too.
    if (entry.armed && !this.#persistent.has(entry.path)) this.#removeFromServer(entry.path, entry.kind);
  }

  /** In the order of the connection: a watch that is set after this is not touched. Nothing depends on the outcome. */
  #removeFromServer(path: string, type: 'data' | 'children' | 'any'): void {
    this.#submitNow(operations.removeWatches(path, type), performance.now() + 1_000).catch(() => undefined);
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

/** One function may wait twice, and each wait is cancelled by itself. */
function registration(onEvent: WatchListener): WatchListener {
  return (event) => onEvent(event);
}

interface SetWatches {
  bytes: number;
  lists: Record<'data' | 'exist' | 'children' | 'persistent' | 'recursive', string[]>;
}

function emptyBatch(): SetWatches {
  return { bytes: 0, lists: { data: [], exist: [], children: [], persistent: [], recursive: [] } };
}

function setWatches(lists: SetWatches['lists'], lastZxid: number): Operation<void> {
  return {
    name: 'setWatches',
    opcode: OPCODE.setWatches,
    path: '',
    writes: false,
    encode: (writer) =>
      void writer
        .long(lastZxid)
        .strings(lists.data)
        .strings(lists.exist)
        .strings(lists.children)
        .strings(lists.persistent)
        .strings(lists.recursive),
    decode: () => undefined,
  };
}

function call(listeners: Iterable<WatchListener>, event: WatchEvent, observer: ZooKeeperObserver): void {
  for (const listener of listeners) {
    try {
      listener(event);
    } catch (error) {
      observer.fault(error);
    }
  }
}
