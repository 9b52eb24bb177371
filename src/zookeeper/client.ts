/**
 * ZooKeeper's operations as typed promises, relative to a chroot. A control session and a lease session differ in how
 * they connect, not in what can be asked.
 *
 * Every operation takes a deadline on the monotonic clock and fails by then. A failure is a `ZooKeeperError` (the
 * server refused: nothing happened) or a `NoReplyError` (`maybeApplied` tells whether it may have happened).
 */
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { NameList } from '../page.js';
import type { Requester } from '../time.js';
import { BoundClient } from './bound.js';
import type { Backlog } from './connection/backlog.js';
import type { Server } from './connect-string.js';
import type { Credential } from './connection/options.js';
import { isReason, unless } from './errors.js';
import type { CommitObserver } from './group-commit.js';
import {
  ANY_VERSION,
  type Acl,
  type CreateMode,
  type Created,
  type Listing,
  type MultiOperation,
  type MultiReadOperation,
  type MultiReadResult,
  type MultiResult,
  type NodeData,
  type Operation,
  type Stat,
} from './operations.js';
import { multi, multiRead } from './operations/multi.js';
import * as nodes from './operations/nodes.js';
import { sync } from './operations/session.js';
import type { NewNode, OwnedNodes, OwnedRules } from './lease/owned-nodes.js';
import { join, parentOf } from './paths.js';
import type { ServerClock } from './server-clock.js';
import type { Zxids } from './connection/zxids.js';
import type { ServerObserver, ServerOrder } from './connection/server-order.js';

export const DEFAULT_REQUEST_TIMEOUT_MS = 10_000;
/** Children removed per transaction when a tree is removed. */
const REMOVE_BATCH = 200;
const NO_DATA = new Uint8Array(0);

/** Shared by all sessions of one gateway. */
export interface Ensemble {
  servers: readonly Server[];
  /** The order in which leases try the servers. */
  order: ServerOrder;
  chroot: string;
  credentials: readonly Credential[];
  tls?: TlsOptions | undefined;
  /** The access list of every new node. */
  acl: readonly Acl[];
  handshakeTimeoutMs: number;
  clock: ServerClock;
  observer: ZooKeeperObserver;
  /** How transaction ids are numbered here; as by the ensemble if undefined. */
  zxids?: Zxids | undefined;
  backlog?: Backlog | undefined;
  /** Called before `ensurePath` creates a missing node above another one; throws if there must not be more of them. */
  admitsMissing?: ((path: string, deadline?: number) => Promise<void> | undefined) | undefined;
  /** What a lease's session, and the control session, may own; unbounded if undefined. */
  ownedByLease?: OwnedRules | undefined;
  ownedByReplica?: OwnedRules | undefined;
}

/** Measurements and log events from below the recipes. */
export interface ZooKeeperObserver extends ServerObserver, CommitObserver {
  request(operation: string, ms: number): void;
  connected(connected: boolean): void;
  /** No server could be reached: one address and cause each. Repeated for as long as it lasts. */
  unreachable(failures: readonly string[]): void;
  reconnected(): void;
  /** The ensemble's time advanced by `ms` more than the monotonic clock. */
  clockLeapt(ms: number): void;
  watchEvent(type: string): void;
  watches(count: number): void;
  fault(error: unknown): void;
  /** A fault of this gateway: whoever was told of something has thrown this. */
  listenerFailed(error: unknown): void;
}

export interface CreateOptions {
  mode?: CreateMode;
}

export abstract class ZooKeeperClient {
  protected constructor(protected readonly ensemble: Ensemble) {}

  protected abstract submit<T>(
    operation: Operation<T>,
    deadline: number | undefined,
    requester?: Requester,
  ): Promise<T>;

  /**
   * The same session on behalf of one request: once that request's client has gone, its writes are not sent any more,
   * however long they waited for a connection or for earlier work (`ClientGoneError`). Reads go on.
   */
  writingFor(requester: Requester): ZooKeeperClient {
    const client = this.viewOf((operation, deadline) => this.submit(operation, deadline, requester));
    client.owned = this.owned;
    return client;
  }

  /** The same session, on which requests are sent otherwise. */
  protected viewOf(submit: <T>(operation: Operation<T>, deadline: number | undefined) => Promise<T>): ZooKeeperClient {
    return new RequestClient(this.ensemble, this, submit);
  }

  /** @param deadline of all that is asked of it, in ms on the monotonic clock */
  until(deadline: number): BoundClient {
    return new BoundClient(this, deadline);
  }

  /**
   * What `read` reads of this session, as new as everything that was acknowledged before this call, by whatever server.
   * Costs a write; a `sync` before the reading costs less, and may be answered by a leader that is none any more.
   * @param read repeatable; begins its requests at once
   * @throws NoReplyError when no quorum answered by the deadline
   */
  abstract readLatest<T>(read: () => Promise<T>, deadline: number): Promise<T>;

  /** Compared with the owners of ephemeral nodes. */
  abstract get sessionId(): bigint;

  /** Counts what the session owns, if that is bounded. */
  owned: OwnedNodes | undefined;

  /** In a sequential mode, the path in the answer includes the sequence number. */
  async create(
    path: string,
    data: Uint8Array = NO_DATA,
    options: CreateOptions = {},
    deadline?: number,
  ): Promise<Created> {
    const { mode = 'persistent' } = options;
    const full = this.full(path);
    const sentAt = performance.now();
    const operation = nodes.create(full, data, mode, this.ensemble.acl);
    const created = await this.#submitOwning([{ type: 'create', path: full, mode }], operation, deadline);
    this.ensemble.clock.observe(created.stat.ctime, sentAt, performance.now());
    return { path: this.relative(created.path), stat: created.stat };
  }

  delete(path: string, version = ANY_VERSION, deadline?: number): Promise<void> {
    return this.submit(nodes.remove(this.full(path), version), deadline);
  }

  /** @returns undefined if there is no such node */
  exists(path: string, deadline?: number): Promise<Stat | undefined> {
    return unless(this.submit(nodes.exists(this.full(path)), deadline), 'NO_NODE');
  }

  getData(path: string, deadline?: number): Promise<NodeData> {
    return this.submit(nodes.getData(this.full(path), false), deadline);
  }

  async setData(path: string, data: Uint8Array, version = ANY_VERSION, deadline?: number): Promise<Stat> {
    const sentAt = performance.now();
    const stat = await this.submit(nodes.setData(this.full(path), data, version), deadline);
    this.ensemble.clock.observe(stat.mtime, sentAt, performance.now());
    return stat;
  }

  getChildren(path: string, deadline?: number): Promise<Listing> {
    return this.submit(nodes.getChildren(this.full(path), false), deadline);
  }

  /** For directories of which it is not known that they have few names. None where there is no such node. */
  async getNames(path: string, deadline: number): Promise<NameList> {
    return new NameList((await unless(this.getChildren(path, deadline), 'NO_NODE'))?.children ?? []);
  }

  /** Resolves with the zxid that the server has reached; later reads on this connection are at least as new. */
  sync(path = '/', deadline?: number): Promise<number> {
    return this.submit(sync(this.full(path)), deadline);
  }

  async multi(items: readonly MultiOperation[], deadline?: number): Promise<MultiResult[]> {
    const absolute = items.map((item) => ({ ...item, path: this.full(item.path) }));
    const sentAt = performance.now();
    const results = await this.#submitOwning(absolute, multi(absolute, this.ensemble.acl), deadline);
    const receivedAt = performance.now();
    for (const [i, result] of results.entries()) {
      if (result.type === 'setData') this.ensemble.clock.observe(result.stat.mtime, sentAt, receivedAt);
      if (result.type !== 'create') continue;
      this.ensemble.clock.observe(result.stat.ctime, sentAt, receivedAt);
      result.path = this.relative(result.path);
      const item = items[i];
      // Older servers do not report the owner.
      if (item?.type === 'create' && isEphemeral(item.mode)) result.stat.ephemeralOwner = this.sessionId;
    }
    return results;
  }

  multiRead(
    items: readonly MultiReadOperation[],
    deadline?: number,
  ): Promise<{ results: MultiReadResult[]; zxid: number }> {
    return this.submit(multiRead(items.map((item) => ({ ...item, path: this.full(item.path) }))), deadline);
  }

  /**
   * Paths of this session's ephemeral nodes under `prefix`, a path without trailing slash. Servers differ in what they
   * count as below it (3.8 compares characters, 3.9 components): filter. The connected server answers: `sync` first.
   */
  async getEphemerals(prefix = '/', deadline?: number): Promise<string[]> {
    const full = this.full(prefix);
    const below = full === '/' ? full : `${full}/`;
    const paths = await this.submit(nodes.getEphemerals(full), deadline);
    // The server compares text: asked for /a, it reports /ab too.
    return paths.filter((path) => path === full || path.startsWith(below)).map((path) => this.relative(path));
  }

  /** Creates `path` and whatever is missing above it, persistent and empty. */
  async ensurePath(path: string, deadline?: number): Promise<void> {
    try {
      await this.create(path, NO_DATA, {}, deadline);
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) return;
      if (!isReason(error, 'NO_NODE') || path === '/') throw error;
      await this.ensemble.admitsMissing?.(parentOf(path), deadline);
      await this.ensurePath(parentOf(path), deadline);
      await this.ensurePath(path, deadline);
    }
  }

  /** Creates the chroot itself; the connect string may name one that does not exist yet. */
  async ensureChroot(deadline?: number): Promise<void> {
    const parts = this.ensemble.chroot.split('/').slice(1);
    for (let i = 1; i <= parts.length; i += 1) {
      const path = `/${parts.slice(0, i).join('/')}`;
      await unless(this.submit(nodes.create(path, NO_DATA, 'persistent', this.ensemble.acl), deadline), 'NODE_EXISTS');
    }
  }

  /** Removes a tree, children first (the library's version sees one level only: defect 16). */
  async removeRecursive(path: string, deadline?: number): Promise<void> {
    const listing = await unless(this.getChildren(path, deadline), 'NO_NODE');
    if (listing === undefined) return;
    const children = listing.children.map((child) => join(path === '/' ? '' : path, child));
    for (let i = 0; i < children.length; i += REMOVE_BATCH) {
      const batch = children.slice(i, i + REMOVE_BATCH);
      const removed = await unless(
        this.multi(
          batch.map((child) => ({ type: 'delete', path: child })),
          deadline,
        ),
        'NOT_EMPTY',
        'NO_NODE',
      );
      if (removed === undefined) for (const child of batch) await this.removeRecursive(child, deadline);
    }
    await unless(this.delete(path, ANY_VERSION, deadline), 'NO_NODE');
  }

  /**
   * Submits an operation that creates nodes, once the session may own the ephemeral ones among them.
   * @throws the rules' refusal if it may not
   */
  #submitOwning<T>(items: readonly Creation[], operation: Operation<T>, deadline: number | undefined): Promise<T> {
    const nodes = this.owned === undefined ? [] : newNodes(items);
    if (nodes.length === 0) return this.submit(operation, deadline);
    const replaced = items.flatMap(({ type, path }) => (type === 'delete' ? [path] : []));
    return this.#submitWhenFree({ nodes, replaced }, operation, deadline);
  }

  async #submitWhenFree<T>(
    { nodes, replaced }: { nodes: readonly NewNode[]; replaced: readonly string[] },
    operation: Operation<T>,
    deadline = performance.now() + DEFAULT_REQUEST_TIMEOUT_MS,
  ): Promise<T> {
    const askedAt = performance.now();
    for (;;) {
      const waiting = this.owned?.reserve(nodes, askedAt, deadline, replaced);
      // Submitted synchronously: a reading sent from now on includes it.
      if (waiting === undefined) return this.submit(operation, deadline);
      await waiting;
    }
  }

  /** For {@link OwnedNodes}. */
  protected async readOwned(deadline: number): Promise<string[]> {
    const root = this.full('/');
    const [, paths] = await Promise.all([this.sync('/', deadline), this.submit(nodes.getEphemerals(root), deadline)]);
    return paths;
  }

  protected full(path: string): string {
    if (this.ensemble.chroot === '') return path;
    return path === '/' ? this.ensemble.chroot : this.ensemble.chroot + path;
  }

  /** Makes an absolute path, as in watch events, relative to the chroot. */
  relative(path: string): string {
    if (this.ensemble.chroot === '') return path;
    return path.slice(this.ensemble.chroot.length) || '/';
  }
}

type Creation =
  { type: 'create'; path: string; mode?: CreateMode } | { type: 'delete' | 'setData' | 'check'; path: string };

function newNodes(items: readonly Creation[]): NewNode[] {
  const nodes: NewNode[] = [];
  for (const item of items)
    if (item.type === 'create' && isEphemeral(item.mode))
      nodes.push({ path: item.path, sequential: item.mode === 'ephemeral-sequential' });
  return nodes;
}

export function isEphemeral(mode: CreateMode | undefined): boolean {
  return mode === 'ephemeral' || mode === 'ephemeral-sequential';
}

/** See `writingFor`. */
class RequestClient extends ZooKeeperClient {
  readonly #client: ZooKeeperClient;
  readonly #submit: <T>(operation: Operation<T>, deadline: number | undefined) => Promise<T>;

  constructor(
    ensemble: Ensemble,
    client: ZooKeeperClient,
    submit: <T>(operation: Operation<T>, deadline: number | undefined) => Promise<T>,
  ) {
    super(ensemble);
    this.#client = client;
    this.#submit = submit;
  }

  override get sessionId(): bigint {
    return this.#client.sessionId;
  }

  override readLatest<T>(read: () => Promise<T>, deadline: number): Promise<T> {
    return this.#client.readLatest(read, deadline);
  }

  protected override submit<T>(operation: Operation<T>, deadline: number | undefined): Promise<T> {
    return this.#submit(operation, deadline);
  }
}
