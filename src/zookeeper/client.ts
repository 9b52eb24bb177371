/**
 * ZooKeeper's operations as typed promises, relative to a chroot. A control session and a lease session
 * differ in how they get a connection, not in what can be asked.
 *
 * Every operation takes a deadline on the monotonic clock and fails by it. A failure is a `ZooKeeperError` (the server
 * refused: nothing happened) or a `NoReplyError` (`maybeApplied` tells whether it may have happened).
 */
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Backlog } from './backlog.js';
import type { Server } from './connect-string.js';
import type { Credential } from './connection.js';
import { isReason, unless } from './errors.js';
import * as operations from './operations.js';
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
import { join, parentOf } from './paths.js';
import type { ServerClock } from './server-clock.js';

export const DEFAULT_REQUEST_TIMEOUT_MS = 10_000;
/** So many children are removed in one transaction when a tree is removed. */
const REMOVE_BATCH = 200;
const NO_DATA = new Uint8Array(0);

/** What all sessions of one gateway share. */
export interface Ensemble {
  servers: readonly Server[];
  chroot: string;
  credentials: readonly Credential[];
  tls?: TlsOptions | undefined;
  /** Given to every node that is created. */
  acl: readonly Acl[];
  handshakeTimeoutMs: number;
  clock: ServerClock;
  observer: ZooKeeperObserver;
  backlog?: Backlog | undefined;
}

/** What is measured and logged below the recipes. */
export interface ZooKeeperObserver {
  request(operation: string, ms: number): void;
  connected(connected: boolean): void;
  reconnected(): void;
  watchEvent(type: string): void;
  watches(count: number): void;
  fault(error: unknown): void;
}

export interface CreateOptions {
  mode?: CreateMode;
  /** For TTL nodes: ms without children and writes after which the server removes the node. */
  ttlMs?: number;
}

export abstract class ZooKeeperClient {
  protected constructor(protected readonly ensemble: Ensemble) {}

  protected abstract submit<T>(operation: Operation<T>, deadline: number | undefined): Promise<T>;

  /** The session ids that own ephemeral nodes are compared with this. */
  abstract get sessionId(): bigint;

  /** For a sequential mode the path in the answer carries the sequence number. */
  async create(
    path: string,
    data: Uint8Array = NO_DATA,
    options: CreateOptions = {},
    deadline?: number,
  ): Promise<Created> {
    const sentAt = performance.now();
    const created = await this.submit(
      operations.create(this.full(path), data, options.mode ?? 'persistent', this.ensemble.acl, options.ttlMs),
      deadline,
    );
    this.ensemble.clock.observe(created.stat.ctime, sentAt, performance.now());
    return { path: this.relative(created.path), stat: created.stat };
  }

  delete(path: string, version = ANY_VERSION, deadline?: number): Promise<void> {
    return this.submit(operations.remove(this.full(path), version), deadline);
  }

  /** @returns undefined when there is no such node */
  exists(path: string, deadline?: number): Promise<Stat | undefined> {
    return unless(this.submit(operations.exists(this.full(path)), deadline), 'NO_NODE');
  }

  getData(path: string, deadline?: number): Promise<NodeData> {
    return this.submit(operations.getData(this.full(path), false), deadline);
  }

  async setData(path: string, data: Uint8Array, version = ANY_VERSION, deadline?: number): Promise<Stat> {
    const sentAt = performance.now();
    const stat = await this.submit(operations.setData(this.full(path), data, version), deadline);
    this.ensemble.clock.observe(stat.mtime, sentAt, performance.now());
    return stat;
  }

  getChildren(path: string, deadline?: number): Promise<Listing> {
    return this.submit(operations.getChildren(this.full(path), false), deadline);
  }

  getAcl(path: string, deadline?: number): Promise<{ acl: Acl[]; stat: Stat }> {
    return this.submit(operations.getAcl(this.full(path)), deadline);
  }

  setAcl(path: string, acl: readonly Acl[], version = ANY_VERSION, deadline?: number): Promise<Stat> {
    return this.submit(operations.setAcl(this.full(path), acl, version), deadline);
  }

  /** Resolves with the zxid that the server has reached; reads that follow on this connection are at least as new. */
  sync(path = '/', deadline?: number): Promise<number> {
    return this.submit(operations.sync(this.full(path)), deadline);
  }

  async multi(items: readonly MultiOperation[], deadline?: number): Promise<MultiResult[]> {
    const absolute = items.map((item) => ({ ...item, path: this.full(item.path) }));
    const results = await this.submit(operations.multi(absolute, this.ensemble.acl), deadline);
    for (const [i, result] of results.entries()) {
      if (result.type !== 'create') continue;
      result.path = this.relative(result.path);
      const item = items[i];
      const ephemeral = item?.type === 'create' && (item.mode === 'ephemeral' || item.mode === 'ephemeral-sequential');
      if (ephemeral) result.stat.ephemeralOwner = this.sessionId; // older servers do not tell
    }
    return results;
  }

  multiRead(
    items: readonly MultiReadOperation[],
    deadline?: number,
  ): Promise<{ results: MultiReadResult[]; zxid: number }> {
    return this.submit(operations.multiRead(items.map((item) => ({ ...item, path: this.full(item.path) }))), deadline);
  }

  /**
   * Paths of this session's ephemeral nodes under `prefix`, a path without trailing slash. Servers differ in what else begins
   * with it (3.8 compares characters, 3.9 components): filter. Answered by the server at hand: `sync` first.
   */
  async getEphemerals(prefix = '/', deadline?: number): Promise<string[]> {
    const full = this.full(prefix);
    const below = full === '/' ? full : `${full}/`;
    const paths = await this.submit(operations.getEphemerals(full), deadline);
    // The server compares text: asked for /a it tells of /ab too.
    return paths.filter((path) => path === full || path.startsWith(below)).map((path) => this.relative(path));
  }

  getAllChildrenNumber(path: string, deadline?: number): Promise<number> {
    return this.submit(operations.getAllChildrenNumber(this.full(path)), deadline);
  }

  whoAmI(deadline?: number): Promise<{ scheme: string; user: string }[]> {
    return this.submit(operations.whoAmI(), deadline);
  }

  /** Makes `path` and whatever is missing above it, persistent and empty. */
  async ensurePath(path: string, deadline?: number): Promise<void> {
    try {
      await this.create(path, NO_DATA, {}, deadline);
    } catch (error) {
      if (isReason(error, 'NODE_EXISTS')) return;
      if (!isReason(error, 'NO_NODE') || path === '/') throw error;
      await this.ensurePath(parentOf(path), deadline);
      await this.ensurePath(path, deadline);
    }
  }

  /** Makes the chroot itself; the connect string may name one that does not exist yet. */
  async ensureChroot(deadline?: number): Promise<void> {
    const parts = this.ensemble.chroot.split('/').slice(1);
    for (let i = 1; i <= parts.length; i += 1) {
      const path = `/${parts.slice(0, i).join('/')}`;
      await unless(
        this.submit(operations.create(path, NO_DATA, 'persistent', this.ensemble.acl), deadline),
        'NODE_EXISTS',
      );
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

  protected full(path: string): string {
    if (this.ensemble.chroot === '') return path;
    return path === '/' ? this.ensemble.chroot : this.ensemble.chroot + path;
  }

  /** What is named absolutely, as watch events do, relative to the chroot. */
  relative(path: string): string {
    if (this.ensemble.chroot === '') return path;
    return path.slice(this.ensemble.chroot.length) || '/';
  }
}
