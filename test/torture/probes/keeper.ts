/**
 * Leases that their clients heartbeat as they should: a beat every third of the TTL, given up after as long and sent
 * again to whichever replica.
 *
 * - None ends before its TTL after the heartbeat that counts was sent, whatever is struck. A server may keep the newest
 *   one to itself for half a tick and be lost with it, so what counts is the one before.
 * - None ends at all while only one server of the ensemble is struck: a lease goes to another server in time.
 */
import { now } from '../../histories/history.js';
import { passed } from '../../support/eventually.js';
import { Party, someReplica, type Surroundings } from './party.js';

export interface KeeperOptions extends Surroundings {
  readonly name: string;
  /** Whether anything was struck since then but one server of the ensemble. */
  readonly disturbedBeyondOneServer: (time: number) => boolean;
  readonly complain: (complaint: string) => void;
}

const LEASES = 8;
const TTL_MS = 6_000;
const BEAT_MS = TTL_MS / 3;
const GIVEN_UP_MS = TTL_MS / 3;
const RETRY_MS = 20;

export class Keeper {
  /** Heartbeats that were answered, and leases that ended although they were kept. */
  beats = 0;
  ended = 0;
  #leases = 0;

  constructor(readonly options: KeeperOptions) {}

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: LEASES }, () => this.#keepOne()));
  }

  async #keepOne(): Promise<void> {
    while (!this.options.isOver()) {
      const begin = now();
      const party = await Party.join(this.options, `${this.options.name}-${(this.#leases += 1)}`, TTL_MS);
      if (party === undefined) return;
      // Its own heartbeats are others than these.
      party.alive = false;
      await this.#keep(party, begin);
      if (this.options.isOver()) await party.leave();
    }
  }

  /** @param begin of the request that was answered with the lease @returns when it has ended, or all is over */
  async #keep({ lease }: Party, begin: number): Promise<void> {
    const answered = [begin];
    while (!this.options.isOver()) {
      const sent = now();
      const reply = await someReplica(this.options)
        .call('POST', '/v1/leases/self/heartbeat', {
          leaseToken: lease.leaseToken,
          signal: AbortSignal.timeout(GIVEN_UP_MS),
        })
        .catch(() => undefined);
      if (reply?.status === 410) return this.#judge(lease.leaseId, answered);
      if (reply?.status === 200) {
        this.beats += 1;
        answered.push(sent);
        lease.leaseToken = (reply.body as { leaseToken?: string }).leaseToken ?? lease.leaseToken;
        await passed(Math.max(0, sent + BEAT_MS - now()));
      } else await passed(RETRY_MS);
    }
  }

  #judge(leaseId: string, answered: readonly number[]): void {
    const { complain, disturbedBeyondOneServer } = this.options;
    this.ended += 1;
    const [newest, counts] = [answered.at(-1) as number, answered.at(-2) ?? (answered[0] as number)];
    const lived = Math.round(now() - counts);
    if (lived < TTL_MS) complain(`${leaseId} had ended ${lived} ms after a heartbeat that was followed by another one`);
    if (!disturbedBeyondOneServer(newest - TTL_MS))
      complain(
        `${leaseId} ended, last answered ${Math.round(now() - newest)} ms ago, while at most one server was struck`,
      );
  }
}
