/**
 * Somebody who holds a lock, and somebody who waits for it all the time: what rounds of many clients cannot show, because their waits are short.
 *
 * - Who waits is granted soon after the holder has released, or was heard of no more for as long as its lease lasts; also when connections were
 *   cut while it waited. Nothing is said of hand-overs during which something was struck, or right after.
 * - Who knows the holdId of somebody else, which everybody can read, cannot release with it.
 * - Each grant has a higher token than the one before.
 */
import { now } from '../histories/history.js';
import type { Client, LeaseHandle, Reply } from '../support/client.js';
import { passed } from '../support/eventually.js';
import { below } from '../support/random.js';
import { scaled } from '../support/timing.js';

export interface RelayOptions {
  readonly lock: string;
  readonly replicas: readonly Client[];
  readonly random: () => number;
  readonly isOver: () => boolean;
  /** Whether anything was struck, or was not mended for long enough, at some time since then. */
  readonly disturbedSince: (time: number) => boolean;
  readonly complain: (complaint: string) => void;
}

const TTL_MS = 3_000;
const WAIT_MS = 30_000;
const HELD_MS = [500, 9_000] as const;
/** A lease ends up to two ticks late, and the ensemble may have elected a leader who gives it a whole TTL more. */
const ENDS_WITHIN_MS = 2 * TTL_MS + 1_000;
const GRANTED_WITHIN_MS = scaled(4_000);
/** How long a hand-over is put off until nothing is struck. */
const CALM_WITHIN_MS = 45_000;
const RETRY_MS = 50;

interface Party {
  readonly lease: LeaseHandle;
  readonly requestId: string;
  alive: boolean;
}

export class Relay {
  /** Hand-overs in peace, of which the time was measured, and the longest of them. */
  judged = 0;
  slowestMs = 0;
  #parties = 0;
  #token = -1;

  constructor(readonly options: RelayOptions) {}

  async run(): Promise<void> {
    const { isOver, random } = this.options;
    let holder = await this.#party();
    if (holder === undefined || (await this.#granted(holder)) === undefined) return;
    while (!isOver()) {
      const next = await this.#party();
      if (next === undefined) return;
      const waiting = this.#granted(next);
      await this.#whileWaiting(HELD_MS[0] + random() * (HELD_MS[1] - HELD_MS[0]));
      await this.#meddle(next, holder);
      const calmUntil = now() + CALM_WITHIN_MS;
      while (!isOver() && this.options.disturbedSince(now()) && now() < calmUntil) await passed(RETRY_MS);
      if (isOver()) return this.#leave(holder, next);
      await this.#handOver(holder, waiting);
      if ((await waiting) === undefined) return;
      holder = next;
    }
    await this.#leave(holder);
  }

  /** @returns when it was known of by everybody that the lock is free, or how long that takes at most */
  async #handOver(holder: Party, waiting: Promise<number | undefined>): Promise<void> {
    const deserts = this.options.random() < 0.3;
    const begin = now();
    let within = GRANTED_WITHIN_MS;
    holder.alive = false;
    if (deserts) within += ENDS_WITHIN_MS;
    else await this.#ask('POST', '/release', holder, { requestId: holder.requestId }, [204, 409, 410]);
    const released = now();
    const late = passed(released - begin + within).then(() => 'late' as const);
    if ((await Promise.race([waiting, late])) === 'late') {
      if (!this.options.disturbedSince(begin) && !this.options.isOver())
        this.options.complain(
          `${this.options.lock}: who waits was not granted within ${within} ms after its holder ${deserts ? 'was heard of no more' : 'had released'}`,
        );
    } else if (!deserts && !this.options.disturbedSince(begin)) {
      this.judged += 1;
      this.slowestMs = Math.max(this.slowestMs, now() - released);
    }
  }

  /** @returns the token; undefined when it is over before */
  async #granted(party: Party): Promise<number | undefined> {
    const { requestId } = party;
    while (!this.options.isOver()) {
      const reply = await this.#ask(
        'POST',
        '/acquire',
        party,
        { waitMs: WAIT_MS, keepPlace: true, requestId },
        [200, 202, 410],
      );
      if (reply?.status === 410) {
        // Its heartbeats did not come through for so long: somebody else has to wait.
        Object.assign(party, await this.#party());
        continue;
      }
      if (reply?.status !== 200) continue;
      const { fencingToken } = reply.body as { fencingToken: number };
      if (fencingToken <= this.#token)
        this.options.complain(`${this.options.lock}: the token ${fencingToken} was given after ${this.#token}`);
      this.#token = fencingToken;
      return fencingToken;
    }
    return undefined;
  }

  /** The waiter uses the holder's holdId, as it is listed. */
  async #meddle(thief: Party, { lease }: Party): Promise<void> {
    const { lock, random, complain } = this.options;
    const view = await this.#replica()
      .call('GET', `/v1/locks/${lock}`)
      .catch(() => undefined);
    const holders =
      view?.status === 200 ? (view.body as { holders: { holdId: string; leaseId: string }[] }).holders : [];
    const theirs = holders.find(({ leaseId }) => leaseId === lease.leaseId);
    if (theirs === undefined || random() < 0.5) return;
    const reply = await this.#ask('POST', '/release', thief, { holdId: theirs.holdId }, [204, 409, 410]);
    if (reply?.status === 204) complain(`${lock}: ${thief.lease.leaseId} released the hold of ${lease.leaseId}`);
  }

  async #party(): Promise<Party | undefined> {
    const requestId = `relay-${(this.#parties += 1)}`;
    while (!this.options.isOver()) {
      const body = { ttlMs: TTL_MS, requestId: `${this.options.lock}-${requestId}` };
      const reply = await this.#replica()
        .call('POST', '/v1/leases', { body })
        .catch(() => undefined);
      if (reply?.status === 201) {
        const party: Party = { lease: reply.body as LeaseHandle, requestId, alive: true };
        void this.#heartbeat(party);
        return party;
      }
      await passed(RETRY_MS);
    }
    return undefined;
  }

  async #heartbeat(party: Party): Promise<void> {
    while (party.alive && !this.options.isOver()) {
      await passed(TTL_MS / 4);
      if (!party.alive) return;
      await this.#replica()
        .heartbeat(party.lease)
        .catch(() => undefined);
    }
  }

  async #whileWaiting(ms: number): Promise<void> {
    const until = now() + ms;
    while (!this.options.isOver() && now() < until) await passed(RETRY_MS);
  }

  async #leave(...parties: readonly Party[]): Promise<void> {
    for (const party of parties) {
      party.alive = false;
      await this.#replica()
        .endLease(party.lease)
        .catch(() => undefined);
    }
  }

  /** Until it is answered with one of these statuses, at one replica or another. */
  async #ask(
    method: 'POST',
    verb: string,
    { lease }: Party,
    body: Record<string, unknown>,
    statuses: readonly number[],
  ): Promise<Reply | undefined> {
    const { lock, isOver } = this.options;
    while (!isOver()) {
      const reply = await this.#replica()
        .call(method, `/v1/locks/${lock}${verb}`, { body, leaseToken: lease.leaseToken })
        .catch(() => undefined);
      if (reply !== undefined && statuses.includes(reply.status)) return reply;
      await passed(RETRY_MS);
    }
    return undefined;
  }

  #replica(): Client {
    const { replicas, random } = this.options;
    return replicas[below(replicas.length, random)] as Client;
  }
}
