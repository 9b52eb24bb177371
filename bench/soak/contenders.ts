/** Locks that are always wanted by more than one: each contender holds for a while, releases, and lines up again. */
import { sleep } from '../generator/meter.js';
import { Client } from './client.js';
import type { SoakLease } from './leases.js';
import type { Tally } from './tally.js';

const HOLD_MS = 8_000;
const WAIT_MS = 45_000;

interface Watched {
  holder: number | undefined;
  lastToken: number;
}

export class Contenders {
  readonly #tally: Tally;
  #running: Promise<void>[] = [];
  #over = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  /** @param leases one for each contender; those of one lock stand next to each other */
  start(leases: readonly SoakLease[], perLock: number): void {
    const locks: Watched[] = [];
    this.#running = leases.map((lease, i) => {
      const lock = Math.floor(i / perLock);
      return this.#contend(lease, i, lock, (locks[lock] ??= { holder: undefined, lastToken: 0 }));
    });
  }

  /** Those who hold release first. */
  async stop(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#running);
  }

  async #contend({ port, token }: SoakLease, me: number, lock: number, watched: Watched): Promise<void> {
    const client = new Client(port, this.#tally);
    const path = `/v1/locks/soak-${lock}`;
    const body = { waitMs: WAIT_MS, requestId: `c${me}` };
    while (!this.#over) {
      const answer = await client.ask(
        [200, 409],
        { method: 'POST', path: `${path}/acquire`, token, body },
        () => !this.#over,
      );
      if (answer?.status !== 200) continue;
      const { holdId, fencingToken } = JSON.parse(answer.body) as { holdId: string; fencingToken: number };
      if (watched.holder !== undefined) this.#tally.violation(`lock ${lock} is held by ${watched.holder} and ${me}`);
      if (fencingToken <= watched.lastToken)
        this.#tally.violation(`lock ${lock}: fencing token ${fencingToken} after ${watched.lastToken}`);
      watched.holder = me;
      watched.lastToken = fencingToken;
      this.#tally.handoffs += 1;
      for (const until = performance.now() + HOLD_MS * (0.5 + Math.random()); performance.now() < until && !this.#over;)
        await sleep(500);
      watched.holder = undefined;
      await client.ask([204, 409], { method: 'POST', path: `${path}/release`, token, body: { holdId } });
    }
    client.close();
  }
}
