/**
 * Learns of the end of a lease as soon as ZooKeeper knows it, whoever ends it and through whichever replica. For
 * requests and streams that wait under a lease.
 *
 *   attached here ──the connection goes──▶ watched ──its node goes──▶ in doubt
 *
 * While this replica is connected to the lease's session, the connection is the watch, at no cost: servers close it
 * with the session. They also close it when another replica attaches; then the lease's own node, which goes with the
 * session too, is watched instead.
 *
 * The result is a doubt, not a proof: the server may not have seen the lease begin yet, and somebody else may have
 * deleted the node. The listener touches the lease, and learns from the ensemble which it is.
 */
import type { BoundClient } from '../zookeeper/bound.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isTransient } from '../zookeeper/errors.js';
import { join } from '../zookeeper/paths.js';
import type { Watch, WatchEvent } from '../zookeeper/watch.js';
import type { AttachedSessions } from './attached-sessions.js';
import type { Layout } from './layout.js';
import type { Lease } from './lease.js';

const REQUEST_MS = 5_000;
const RETRY_MS = 250;

/**
 * Whether a lease is alive, according to a quorum: its own node goes with its session. A session that was never
 * announced has no node.
 * @throws NoReplyError if no quorum answers
 */
export async function isAlive(control: ControlSession, path: string, lease: Lease, deadline: number): Promise<boolean> {
  const stat = await control.readLatest(() => control.exists(path, deadline), deadline);
  return stat?.ephemeralOwner === lease.identity.id.readBigInt64BE();
}

export class LeaseLife {
  readonly #control: ControlSession;
  readonly #path: string;
  readonly #onDoubt: () => void;
  readonly #stopListening: () => void;
  #retry: NodeJS.Timeout | undefined;
  #watch: Watch | undefined;
  #looking = false;
  #stopped = false;

  /**
   * @param path of the lease's own node
   * @param onDoubt called when the lease may have ended
   */
  constructor(
    { control, sessions }: { control: ControlSession; sessions: AttachedSessions },
    lease: Lease,
    path: string,
    onDoubt: () => void,
  ) {
    this.#control = control;
    this.#path = path;
    this.#onDoubt = onDoubt;
    this.#stopListening = sessions.onDetached(lease, () => this.#watchNode());
  }

  stop(): void {
    this.#stopped = true;
    this.#stopListening();
    clearTimeout(this.#retry);
    this.#watch?.cancel();
  }

  #watchNode(): void {
    if (this.#stopped || this.#looking || this.#watch !== undefined) return;
    clearTimeout(this.#retry);
    this.#looking = true;
    void this.#look();
  }

  async #look(): Promise<void> {
    try {
      const deadline = performance.now() + REQUEST_MS;
      let fired = false;
      const onEvent = (event: WatchEvent): void => {
        fired = true;
        this.#onEvent(event);
      };
      const { value, watch } = await this.#control.watches.exists(this.#path, onEvent, deadline);
      if (this.#stopped) return watch?.cancel();
      // The event may arrive before the answer.
      if (!fired) this.#watch = watch;
      if (value === undefined) this.#onDoubt();
    } catch (error) {
      if (!isTransient(error)) throw error;
      this.#lookLater();
    } finally {
      this.#looking = false;
    }
  }

  #onEvent({ type }: WatchEvent): void {
    this.#watch = undefined;
    if (this.#stopped) return;
    if (type === 'deleted') this.#onDoubt();
    else this.#lookLater(); // it began, for this server, or the control session was replaced
  }

  #lookLater(): void {
    if (!this.#stopped) this.#retry = setTimeout(() => this.#watchNode(), RETRY_MS).unref();
  }
}

/** Whether any lease of the namespace lives, as the server knows it. @throws NoReplyError */
export async function isLeaseAlive(zk: BoundClient, layout: Layout, namespace: string): Promise<boolean> {
  const leases = layout.leases(namespace);
  const buckets = await zk.children(leases);
  if (buckets.length === 0) return false;
  const { results } = await zk.multiRead(buckets.map((bucket) => ({ type: 'getData', path: join(leases, bucket) })));
  return results.some((result) => 'stat' in result && result.stat.numChildren > 0);
}
