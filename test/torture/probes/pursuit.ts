/**
 * Somebody who wants a lock as soon as somebody else has it, at another replica perhaps: whose server may not have
 * heard of the holder yet. As long as the holder's lease lasts by its own clock, and it has not begun to release,
 * nobody else is told that it holds.
 *
 * A replica reads nothing that is out of date behind something that it has written, because the server answers a
 * session in order. So the place has a lock-delay: then it is created as one that waits, and nothing has to be written
 * before the one in front is looked at. In half of the turns it is made where its lease is at home, in the others at
 * one replica and waited for at another.
 */
import { now } from '../../histories/history.js';
import { passed } from '../../support/eventually.js';
import type { Client } from '../../support/http/client.js';
import { Party, someReplica, type Surroundings } from './party.js';

export interface PursuitOptions extends Surroundings {
  readonly lock: string;
  readonly complain: (complaint: string) => void;
}

const TTL_MS = 5_000;
const WAIT_MS = 300;
const PAUSE_MS = 100;
/** Then others come, whose leases prefer other servers. */
const TURNS = 5;

export class Pursuit {
  tried = 0;
  #turns = 0;

  constructor(readonly options: PursuitOptions) {}

  async run(): Promise<void> {
    const { lock, isOver } = this.options;
    while (!isOver()) {
      const names = [`${lock}-${this.#turns}-first`, `${lock}-${this.#turns}-second`] as const;
      const [first, second] = await Promise.all(names.map((name) => Party.join(this.options, name, TTL_MS)));
      if (first === undefined || second === undefined) return;
      const home = someReplica(this.options);
      for (let i = 0; i < TURNS && !isOver(); i += 1)
        await this.#turn(first, second, () => (this.#turns % 2 === 0 ? home : someReplica(this.options)));
      await Promise.all([first.leave(), second.leave()]);
      await passed(PAUSE_MS);
    }
  }

  /** @param where the second one asks */
  async #turn(first: Party, second: Party, where: () => Client): Promise<void> {
    const { lock, complain } = this.options;
    const requestId = String((this.#turns += 1));
    const begin = now();
    const holds = await this.#acquire(first, requestId, 0, someReplica(this.options));
    if (holds) {
      this.tried += 1;
      const placed = await this.#acquire(second, requestId, 1, where());
      const too = placed || (await this.#acquire(second, requestId, WAIT_MS, where()));
      if (too && now() < begin + TTL_MS)
        complain(`${lock}: ${second.name} was granted (turn ${requestId}) while ${first.name} held it`);
    }
    // Whatever was granted, or may have been.
    for (const party of [second, first]) await party.ask(`/v1/locks/${lock}/release`, { requestId }, [204, 409, 410]);
  }

  /** One request. @returns whether it was told that it holds */
  async #acquire({ lease }: Party, requestId: string, waitMs: number, replica: Client): Promise<boolean> {
    const body = { waitMs, requestId, keepPlace: waitMs > 0, ...(waitMs > 0 && { lockDelayMs: 1 }) };
    const reply = await replica
      .call('POST', `/v1/locks/${this.options.lock}/acquire`, { body, leaseToken: lease.leaseToken })
      .catch(() => undefined);
    return reply?.status === 200;
  }
}
