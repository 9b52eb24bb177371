/** Messages pushed at a rate, claimed and acknowledged; each exactly once in the end. */
import { sleep } from '../generator/meter.js';
import { Client } from './client.js';
import type { SoakLease } from './leases.js';
import type { Tally } from './tally.js';

const QUEUES = 4;
const PER_PUSH = 20;
const PRODUCERS = 8;
const CLAIM_WAIT_MS = 5_000;
/** Above it nobody pushes: what is not acknowledged in time would pile up, and be growth. */
const OPEN_MAX = 4_000;
const DRAINED_WITHIN_MS = 120_000;

export class Messages {
  readonly #tally: Tally;
  /** Ids that were pushed and not acknowledged yet (1), or acknowledged before the push was answered (-1). */
  readonly #open = new Map<string, number>();
  #producing: Promise<void>[] = [];
  #consuming: Promise<void>[] = [];
  #pushing = true;
  #over = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  /** @param consumers a lease for each */
  start(ports: readonly number[], consumers: readonly SoakLease[], perSecond: number): void {
    const startedAt = performance.now();
    let sent = 0;
    // What could not be pushed in its time is not made up for.
    const isDue = (): boolean => {
      const due = ((performance.now() - startedAt) / 1_000) * perSecond;
      sent = Math.max(sent, due - perSecond);
      return sent < due;
    };
    const produce = async (i: number): Promise<void> => {
      const client = new Client(ports[i % ports.length] as number, this.#tally);
      const path = `/v1/queues/soak-${i % QUEUES}/messages`;
      const messages = Array.from({ length: PER_PUSH }, (_, n) => ({ body: { producer: i, n } }));
      while (this.#pushing) {
        if (!isDue() || this.#open.size > OPEN_MAX) {
          await sleep(5);
          continue;
        }
        sent += PER_PUSH;
        const answer = await client.ask([201], { method: 'POST', path, body: { messages } });
        const { items } = JSON.parse((answer as { body: string }).body) as { items: { id: string }[] };
        for (const { id } of items) this.#count(`${i % QUEUES} ${id}`, 1);
        this.#tally.pushed += items.length;
      }
      client.close();
    };
    this.#producing = Array.from({ length: PRODUCERS }, (_, i) => produce(i));
    this.#consuming = consumers.map((lease, i) => this.#consume(lease, i % QUEUES));
  }

  /** Until every message is acknowledged. */
  async stop(): Promise<void> {
    this.#pushing = false;
    await Promise.all(this.#producing);
    for (const until = performance.now() + DRAINED_WITHIN_MS; this.#open.size > 0 && performance.now() < until;)
      await sleep(100);
    this.#over = true;
    await Promise.all(this.#consuming);
    const lost = [...this.#open.values()].filter((count) => count > 0).length;
    const again = this.#open.size - lost;
    if (lost > 0) this.#tally.violation(`${lost} messages were pushed and never came`);
    // A push of unknown outcome was repeated without ids of its own for its messages: they may have come twice.
    if (again > this.#tally.unknown * PER_PUSH)
      this.#tally.violation(`${again} messages came that nobody was told to have pushed, or came twice`);
  }

  async #consume({ port, token }: SoakLease, queue: number): Promise<void> {
    const client = new Client(port, this.#tally);
    const path = `/v1/queues/soak-${queue}`;
    const body = { max: PER_PUSH, waitMs: CLAIM_WAIT_MS };
    while (!this.#over) {
      const claimed = await client.ask(
        [200, 204],
        { method: 'POST', path: `${path}/claim`, token, body },
        () => !this.#over,
      );
      if (claimed?.status !== 200) continue;
      const { items } = JSON.parse(claimed.body) as { items: { id: string; claimId: string }[] };
      const claimIds = items.map(({ claimId }) => claimId);
      const answer = await client.ask([200], { method: 'POST', path: `${path}/ack`, token, body: { claimIds } });
      const acks = (JSON.parse((answer as { body: string }).body) as { items: { status: number }[] }).items;
      for (const [i, { status }] of acks.entries()) {
        if (status !== 200) {
          this.#tally.refused({ status, body: '{"code":"ack"}' });
          continue;
        }
        this.#count(`${queue} ${items[i]?.id}`, -1);
        this.#tally.acknowledged += 1;
      }
    }
    client.close();
  }

  #count(id: string, by: number): void {
    const count = (this.#open.get(id) ?? 0) + by;
    if (count === 0) this.#open.delete(id);
    else this.#open.set(id, count);
  }
}
