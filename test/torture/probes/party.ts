/**
 * Somebody who has a lease, keeps it by heartbeats, and repeats what it asks, at one replica or another, until it is
 * answered.
 */
import type { Client, LeaseHandle, Reply } from '../../support/http/client.js';
import { passed } from '../../support/eventually.js';
import { below } from '../../support/random.js';

export interface Surroundings {
  readonly replicas: readonly Client[];
  readonly random: () => number;
  readonly isOver: () => boolean;
}

const RETRY_MS = 50;
const HEARTBEATS_PER_TTL = 4;

export class Party {
  /** Whether it sends heartbeats. */
  alive = true;

  private constructor(
    readonly surroundings: Surroundings,
    readonly name: string,
    readonly lease: LeaseHandle,
  ) {
    void this.#heartbeat();
  }

  /** @param name of nobody else @returns undefined when it is over before */
  static async join(surroundings: Surroundings, name: string, ttlMs: number): Promise<Party | undefined> {
    const reply = await ask(surroundings, '/v1/leases', { ttlMs, requestId: name.padEnd(22, '-') }, [201]);
    return reply && new Party(surroundings, name, reply.body as LeaseHandle);
  }

  /** @returns the answer with one of these statuses; undefined when it is over before */
  ask(path: string, body: Record<string, unknown>, statuses: readonly number[]): Promise<Reply | undefined> {
    return ask(this.surroundings, path, body, statuses, this.lease.leaseToken);
  }

  /** Its lease ends now, if a replica can be told. */
  async leave(): Promise<void> {
    this.alive = false;
    await someReplica(this.surroundings)
      .endLease(this.lease)
      .catch(() => undefined);
  }

  async #heartbeat(): Promise<void> {
    while (this.alive && !this.surroundings.isOver()) {
      await passed(this.lease.ttlMs / HEARTBEATS_PER_TTL);
      if (!this.alive) return;
      const reply = await someReplica(this.surroundings)
        .heartbeat(this.lease)
        .catch(() => undefined);
      if (reply?.status === 410) this.alive = false;
      // Sealed anew under the key of now: the old ones go in time.
      if (reply?.status === 200)
        this.lease.leaseToken = (reply.body as { leaseToken?: string }).leaseToken ?? this.lease.leaseToken;
    }
  }
}

export function someReplica({ replicas, random }: Surroundings): Client {
  return replicas[below(replicas.length, random)] as Client;
}

async function ask(
  surroundings: Surroundings,
  path: string,
  body: Record<string, unknown>,
  statuses: readonly number[],
  leaseToken?: string,
): Promise<Reply | undefined> {
  while (!surroundings.isOver()) {
    const reply = await someReplica(surroundings)
      .call('POST', path, { body, ...(leaseToken !== undefined && { leaseToken }) })
      .catch(() => undefined);
    if (reply !== undefined && statuses.includes(reply.status)) return reply;
    await passed(RETRY_MS);
  }
  return undefined;
}
