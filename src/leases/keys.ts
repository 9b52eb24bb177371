/**
 * The keys that seal lease tokens. Configured keys are used as they are. Without any, all replicas of one root share a
 * key that the first of them creates in ZooKeeper (of two creators, the second reads the first one's), so that a token
 * opens at every replica. Whoever can read the root can read that key: configure keys where that matters.
 */
import { randomBytes } from 'node:crypto';
import { byDeadline } from '../zookeeper/by-deadline.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, isTransient } from '../zookeeper/errors.js';
import { parentOf } from '../zookeeper/paths.js';
import type { Layout } from './layout.js';
import { KEY_BYTES, KeyRing } from './lease-token.js';

export class LeaseKeys {
  readonly #control: ControlSession;
  readonly #layout: Layout;
  #ring: KeyRing | undefined;
  #reading: Promise<KeyRing> | undefined;

  /** @param configured 32 bytes each; empty: use the shared key in ZooKeeper */
  constructor(control: ControlSession, layout: Layout, configured: readonly Buffer[]) {
    this.#control = control;
    this.#layout = layout;
    this.#ring = configured.length > 0 ? new KeyRing(configured) : undefined;
  }

  get isKnown(): boolean {
    return this.#ring !== undefined;
  }

  /**
   * The shared key is read once at a time for all who ask meanwhile, however many tokens come that do not open.
   * @throws NoReplyError if the shared key must be read and ZooKeeper does not answer by `deadline`
   */
  async ring(deadline: number): Promise<KeyRing> {
    for (;;) {
      if (this.#ring !== undefined) return this.#ring;
      if (this.#reading === undefined) return (this.#reading = this.#read(deadline));
      try {
        return await byDeadline(this.#reading, deadline, 'the reading of the key of lease tokens');
      } catch (error) {
        // That was the end of somebody else's time.
        if (!isTransient(error) || performance.now() >= deadline) throw error;
      }
    }
  }

  async #read(deadline: number): Promise<KeyRing> {
    try {
      return (this.#ring = new KeyRing([await this.#shared(deadline)]));
    } finally {
      this.#reading = undefined;
    }
  }

  async #shared(deadline: number): Promise<Buffer> {
    const path = this.#layout.leaseKey;
    const zk = this.#control.until(deadline);
    await zk.sync(path);
    for (;;) {
      const node = await zk.find(path);
      if (node?.data.length === KEY_BYTES) return node.data;
      if (node !== undefined) throw new Error(`${path} holds ${node.data.length} bytes, not a key of ${KEY_BYTES}`);
      try {
        await zk.ensure(parentOf(path));
        await zk.create(path, randomBytes(KEY_BYTES));
      } catch (error) {
        if (!isReason(error, 'NODE_EXISTS')) throw error;
      }
    }
  }
}
