/**
 * Keeps what was sent for a lease on an earlier connection from being done after something newer (protocol C46).
 *
 * ZooKeeper refuses the requests of a connection from which the session has moved to another server. That holds until
 * the session comes back: a server that hung, and still has requests of a lease, passes them on when it goes on; and if
 * anybody has attached the lease there again by then, the leader takes them. Writes that name a version fail, but a
 * node would be created that nobody knows of, and which stays as long as the lease.
 *
 * So each transaction that creates what the lease owns checks the version of the lease's own node, the *fence*. Whoever
 * has to know what will have become of something that was sent (because the request is repeated, given up or undone)
 * raises the fence and reads behind that: what is not there then never will be.
 */
import { LeaseExpiredError } from '../../errors.js';
import type { BoundClient } from '../bound.js';
import { byDeadline } from '../by-deadline.js';
import { isReason, unless } from '../errors.js';
import type { MultiOperation, MultiResult, NodeData } from '../operations.js';

/** How long raising it may take; each request for it is bounded by the lease's patience as well. */
const RAISE_MS = 10_000;

export class Fence {
  readonly #path: string;
  readonly #session: (deadline: number) => BoundClient;
  /** As far as is known here: it is rarely raised. */
  #version = 0;
  #raised: Promise<void> | undefined;

  /**
   * @param path of the lease's own node
   * @param session the lease's, on behalf of no request: what raises the fence is shared
   */
  constructor(path: string, session: (deadline: number) => BoundClient) {
    this.#path = path;
    this.#session = session;
  }

  /**
   * Sends a transaction that creates something; again where the fence had been raised unnoticed.
   * @param zk the lease's session
   * @param submit sends the transaction that it is given, at once
   * @throws LeaseExpiredError if the lease's own node is gone; else as `submit`, with indices of `items`
   */
  async pass(
    zk: BoundClient,
    items: readonly MultiOperation[],
    submit: (guarded: readonly MultiOperation[]) => Promise<MultiResult[]>,
  ): Promise<MultiResult[]> {
    for (;;) {
      try {
        // The check stands last: what else is refused keeps its index.
        const results = await submit([...items, { type: 'check', path: this.#path, version: this.#version }]);
        return results.slice(0, items.length);
      } catch (error) {
        if (!isReason(error, 'BAD_VERSION', 'NO_NODE') || error.failedIndex !== items.length) throw error;
        // The server that refused it has seen it raised.
        const stat = isReason(error, 'BAD_VERSION') ? await zk.exists(this.#path) : undefined;
        if (stat === undefined) throw new LeaseExpiredError(error);
        this.#version = stat.version;
      }
    }
  }

  /**
   * As `raiseFence`, on the lease's own session. Once is enough for a connection: what has to be fenced off was sent on
   * earlier ones.
   */
  raise(deadline: number): Promise<void> {
    this.#raised ??= this.#raise(this.#session(performance.now() + RAISE_MS)).catch((error: unknown) => {
      this.#raised = undefined;
      throw error;
    });
    return byDeadline(this.#raised, deadline, 'the fence of the lease');
  }

  async #raise(zk: BoundClient): Promise<void> {
    this.#version = await raiseFence(zk, this.#path);
  }
}

/**
 * Has the ensemble refuse every creation that was sent for a lease before, and is not done by now.
 * @param zk any session
 * @param path of the lease's own node
 * @returns the version of the fence
 * @throws LeaseExpiredError if that node is gone
 */
export async function raiseFence(zk: BoundClient, path: string): Promise<number> {
  for (;;) {
    const { data, stat } = await ownNode(zk, path);
    const raised = await unless(zk.set(path, data, stat.version), 'BAD_VERSION', 'NO_NODE');
    if (raised !== undefined) return raised.version;
  }
}

/** A server that lags may not have it yet. */
async function ownNode(zk: BoundClient, path: string): Promise<NodeData> {
  const node = (await zk.find(path)) ?? (await zk.fresh(() => zk.find(path)));
  if (node === undefined) throw new LeaseExpiredError();
  return node;
}
