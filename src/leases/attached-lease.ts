/**
 * What a replica knows of one lease whose session it uses, and whose turn it is.
 *
 * Replicas that use one lease at once take its session from each other. The one that loses it in the middle of its work
 * leaves it to the others for a turn, so that each attach serves many requests. A lease that is used at one replica
 * after another loses nothing in the middle of work, and is not kept waiting.
 */
import { pause } from '../time.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { Lease } from './lease.js';

/**
 * Several times as long as an attach takes; at most twice as long, by chance, so that each of three replicas gets a
 * turn. Longer turns would help clients that stay at one replica each, at the cost of those that go to all of them.
 */
export const TURN_MS = 5;

export class AttachedLease {
  readonly lease: Lease;
  session: LeaseSession | undefined;
  attaching: Promise<LeaseSession> | undefined;
  /** Requests that use the session, or wait for it. */
  users = 0;
  /** Its last connection was replaced because it had been silent for too long. */
  overdue = false;
  #yielding: Promise<void> | undefined;

  constructor(lease: Lease) {
    this.lease = lease;
  }

  /** Nobody uses it, and nothing about it has to be remembered. */
  get idle(): boolean {
    return this.users === 0 && this.attaching === undefined && this.#yielding === undefined;
  }

  /** Set while it is the turn of other replicas; never rejects. */
  get yielding(): Promise<void> | undefined {
    return this.#yielding;
  }

  /** Another replica has taken the session while it was in use here. */
  yieldTurn(over: () => void): void {
    this.#yielding ??= pause(TURN_MS * (1 + Math.random())).then(() => {
      this.#yielding = undefined;
      over();
    });
  }
}
