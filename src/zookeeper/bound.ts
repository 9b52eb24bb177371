/**
 * A session of ZooKeeper as one request sees it: every operation ends by the request's deadline, which is named once.
 *
 *     const zk = control.until(deadline);
 *     const node = await zk.fresh(() => zk.find(path));
 *
 * What is asked and what it fails with is the client's (`client.ts`): each operation rejects with a `ZooKeeperError`
 * where the server refused it, and with a `NoReplyError` at the deadline, or when the connection is lost. Nothing is
 * repeated here. `find`, `list`, `children` and `exists` take a missing node for an answer.
 */
import type { NameList } from '../page.js';
import { unless } from './errors.js';
import type {
  Created,
  CreateMode,
  Listing,
  MultiOperation,
  MultiReadOperation,
  MultiReadResult,
  MultiResult,
  NodeData,
  Stat,
} from './operations.js';

/** What a client is asked, with a deadline each time. */
interface Unbound {
  getData(path: string, deadline: number): Promise<NodeData>;
  exists(path: string, deadline: number): Promise<Stat | undefined>;
  getChildren(path: string, deadline: number): Promise<Listing>;
  getNames(path: string, deadline: number): Promise<NameList>;
  multiRead(items: readonly MultiReadOperation[], deadline: number): ReturnType<BoundClient['multiRead']>;
  getEphemerals(prefix: string, deadline: number): Promise<string[]>;
  sync(path: string, deadline: number): Promise<number>;
  readLatest<T>(read: () => Promise<T>, deadline: number): Promise<T>;
  create(path: string, data: Uint8Array | undefined, options: { mode: CreateMode }, deadline: number): Promise<Created>;
  ensurePath(path: string, deadline: number): Promise<void>;
  setData(path: string, data: Uint8Array, version: number | undefined, deadline: number): Promise<Stat>;
  delete(path: string, version: number | undefined, deadline: number): Promise<void>;
  multi(items: readonly MultiOperation[], deadline: number): Promise<MultiResult[]>;
}

export class BoundClient {
  readonly #client: Unbound;
  /** In ms on the monotonic clock, for whatever else has to end by then. */
  readonly deadline: number;

  /** To be had by `ZooKeeperClient.until`. */
  constructor(client: Unbound, deadline: number) {
    this.#client = client;
    this.deadline = deadline;
  }

  /** @throws ZooKeeperError `NO_NODE`, with the zxid of the state that has no such node */
  get(path: string): Promise<NodeData> {
    return this.#client.getData(path, this.deadline);
  }

  /** @returns undefined when there is no such node */
  find(path: string): Promise<NodeData | undefined> {
    return unless(this.get(path), 'NO_NODE');
  }

  /** @returns undefined when there is no such node */
  exists(path: string): Promise<Stat | undefined> {
    return this.#client.exists(path, this.deadline);
  }

  /** The names of the children, and the state in which they were read. @returns undefined when there is no such node */
  list(path: string): Promise<Listing | undefined> {
    return unless(this.#client.getChildren(path, this.deadline), 'NO_NODE');
  }

  /** The names of the children, in no order; none when there is no such node. */
  async children(path: string): Promise<string[]> {
    return (await this.list(path))?.children ?? [];
  }

  /**
   * The names of the children, of which there may be very many: all who ask at once share a reading that begins after
   * they asked.
   */
  names(path: string): Promise<NameList> {
    return this.#client.getNames(path, this.deadline);
  }

  /** Several reads in one request, each with a result of its own. */
  multiRead(items: readonly MultiReadOperation[]): Promise<{ results: MultiReadResult[]; zxid: number }> {
    return this.#client.multiRead(items, this.deadline);
  }

  /** Full paths of the session's ephemeral nodes below `prefix`, as the server at hand knows them. */
  ephemerals(prefix: string): Promise<string[]> {
    return this.#client.getEphemerals(prefix, this.deadline);
  }

  /** Resolves with the zxid that the server has reached; what is read behind it on this session is as new at least. */
  sync(path: string): Promise<number> {
    return this.#client.sync(path, this.deadline);
  }

  /**
   * What `read` reads of this session, as new as everything that was acknowledged before this call. It costs a write.
   * @param read repeatable; begins its requests at once
   * @throws NoReplyError when no quorum answered by the deadline
   */
  fresh<T>(read: () => Promise<T>): Promise<T> {
    return this.#client.readLatest(read, this.deadline);
  }

  /** For a sequential mode the path in the answer carries the sequence number. @throws ZooKeeperError `NODE_EXISTS` */
  create(path: string, data?: Uint8Array, mode: CreateMode = 'persistent'): Promise<Created> {
    return this.#client.create(path, data, { mode }, this.deadline);
  }

  /** Makes `path` and whatever is missing above it, persistent and empty. */
  ensure(path: string): Promise<void> {
    return this.#client.ensurePath(path, this.deadline);
  }

  /** @param version any, unless it is given @throws ZooKeeperError `NO_NODE`, `BAD_VERSION` */
  set(path: string, data: Uint8Array, version?: number): Promise<Stat> {
    return this.#client.setData(path, data, version, this.deadline);
  }

  /** @param version any, unless it is given @throws ZooKeeperError `NO_NODE`, `BAD_VERSION`, `NOT_EMPTY` */
  remove(path: string, version?: number): Promise<void> {
    return this.#client.delete(path, version, this.deadline);
  }

  /** All of it or nothing. @throws ZooKeeperError with the index of the operation that was refused */
  multi(items: readonly MultiOperation[]): Promise<MultiResult[]> {
    return this.#client.multi(items, this.deadline);
  }
}

/** For what only writes: also what gathers the writes of many requests (`group-commit.ts`). */
export type BoundWriter = Pick<BoundClient, 'set' | 'remove' | 'multi'>;
