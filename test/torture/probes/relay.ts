/**
 * Somebody who holds a lock, and somebody who waits for it all the time: what rounds of many clients cannot show,
 * because their waits are short.
 *
 * - Who waits is granted soon after the holder has released, or was heard of no more for as long as its lease lasts;
 *   also when connections were cut while it waited. Nothing is said of hand-overs during which something was struck, or
 *   right after.
 * - Who knows the holdId of somebody else, which everybody can read, cannot release with it.
 * - Each grant has a higher token than the one before.
 */
import { now } from '../../histories/history.js';
import { passed } from '../../support/eventually.js';
import { scaled } from '../../support/timing.js';
import { Party, someReplica, type Surroundings } from './party.js';

export interface RelayOptions extends Surroundings {
  readonly lock: string;
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
const LOOK_EVERY_MS = 50;

/** Somebody in line, and what becomes of it. */
interface Waiting {
  readonly party: Party;
  /** The party that was granted; undefined when it is over before. */
  readonly granted: Promise<Party | undefined>;
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
    let holder = await (await this.#next())?.granted;
    while (holder !== undefined && !isOver()) {
      const next = await this.#next();
      if (next === undefined) break;
      await this.#until(now() + HELD_MS[0] + random() * (HELD_MS[1] - HELD_MS[0]), () => false);
      await this.#meddle(next.party, holder);
      await this.#until(now() + CALM_WITHIN_MS, () => !this.options.disturbedSince(now()));
      if (isOver()) await next.party.leave();
      else await this.#handOver(holder, next);
      if (isOver()) break;
      holder = await next.granted;
    }
    await holder?.leave();
  }

  async #next(): Promise<Waiting | undefined> {
    const party = await Party.join(this.options, `${this.options.lock}-${(this.#parties += 1)}`, TTL_MS);
    return party && { party, granted: this.#granted(party) };
  }

  async #handOver(holder: Party, { granted }: Waiting): Promise<void> {
    const { lock, random, disturbedSince, isOver, complain } = this.options;
    const deserts = random() < 0.3;
    const begin = now();
    holder.alive = false;
    if (!deserts) await holder.ask(`/v1/locks/${lock}/release`, { requestId: holder.name }, [204, 409, 410]);
    const freed = now();
    const within = GRANTED_WITHIN_MS + (deserts ? ENDS_WITHIN_MS : 0);
    const late = await Promise.race([granted.then(() => false), passed(within).then(() => true)]);
    if (disturbedSince(begin) || isOver()) return;
    if (late) {
      const how = deserts ? 'was heard of no more' : 'had released';
      complain(`${lock}: who waits was not granted within ${within} ms after its holder ${how}`);
    } else if (!deserts) {
      this.judged += 1;
      this.slowestMs = Math.max(this.slowestMs, now() - freed);
    }
  }

  async #granted(party: Party): Promise<Party | undefined> {
    const { lock, complain } = this.options;
    const body = { waitMs: WAIT_MS, keepPlace: true, requestId: party.name };
    for (;;) {
      const reply = await party.ask(`/v1/locks/${lock}/acquire`, body, [200, 202, 410]);
      if (reply === undefined) return undefined;
      // Its heartbeats did not come through for so long: somebody else waits in its stead.
      if (reply.status === 410) return (await this.#next())?.granted;
      if (reply.status === 202) continue;
      const { fencingToken } = reply.body as { fencingToken: number };
      if (fencingToken <= this.#token) complain(`${lock}: the token ${fencingToken} was given after ${this.#token}`);
      this.#token = fencingToken;
      return party;
    }
  }

  /** The waiter uses the holder's holdId, as it is listed. */
  async #meddle(thief: Party, { lease }: Party): Promise<void> {
    const { lock, complain } = this.options;
    const view = await someReplica(this.options)
      .call('GET', `/v1/locks/${lock}`)
      .catch(() => undefined);
    const holders =
      view?.status === 200 ? (view.body as { holders: { holdId: string; leaseId: string }[] }).holders : [];
    const theirs = holders.find(({ leaseId }) => leaseId === lease.leaseId);
    if (theirs === undefined) return;
    const reply = await thief.ask(`/v1/locks/${lock}/release`, { holdId: theirs.holdId }, [204, 409, 410]);
    if (reply?.status === 204) complain(`${lock}: ${thief.lease.leaseId} released the hold of ${lease.leaseId}`);
  }

  async #until(time: number, condition: () => boolean): Promise<void> {
    while (!this.options.isOver() && now() < time && !condition()) await passed(LOOK_EVERY_MS);
  }
}
