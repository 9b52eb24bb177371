/** Leases, each always through the same replica, kept alive three times per TTL by heartbeats for many at once. */
import { sleep } from '../generator/meter.js';
import { Client } from './client.js';
import type { Tally } from './tally.js';

const TTL_MS = 60_000;
const HEARTBEATS_PER_TTL = 3;
const TOKENS_PER_HEARTBEAT = 50;
const CREATED_AT_ONCE = 8;
const ENDED_AT_ONCE = 16;

export interface SoakLease {
  readonly port: number;
  readonly token: string;
}

export class SoakLeases {
  readonly #tally: Tally;
  readonly all: SoakLease[] = [];
  #beating: Promise<void>[] = [];
  #over = false;

  constructor(tally: Tally) {
    this.#tally = tally;
  }

  /** Heartbeats begin with the first ones, so that none waits for the last. */
  async create(ports: readonly number[], count: number): Promise<void> {
    let left = count;
    const create = async (port: number): Promise<void> => {
      const client = new Client(port, this.#tally);
      let batch: SoakLease[] = [];
      while (left > 0) {
        left -= 1;
        const answer = await client.ask([201], { method: 'POST', path: '/v1/leases', body: { ttlMs: TTL_MS } });
        const { leaseToken } = JSON.parse((answer as { body: string }).body) as { leaseToken: string };
        const lease = { port, token: leaseToken };
        this.all.push(lease);
        this.#tally.leases += 1;
        if (batch.length === 0) this.#beating.push(this.#beat(batch));
        batch.push(lease);
        if (batch.length === TOKENS_PER_HEARTBEAT) batch = [];
      }
      client.close();
    };
    await Promise.all(ports.flatMap((port) => Array.from({ length: CREATED_AT_ONCE }, () => create(port))));
  }

  async end(): Promise<void> {
    this.#over = true;
    await Promise.all(this.#beating);
    let next = 0;
    const end = async (i: number): Promise<void> => {
      const clients = new Map<number, Client>();
      for (; next < this.all.length;) {
        const { port, token } = this.all[next++] as SoakLease;
        let client = clients.get(port);
        if (client === undefined) clients.set(port, (client = new Client(port, this.#tally)));
        await client.ask([204], { method: 'DELETE', path: '/v1/leases/self', token });
        this.#tally.leases -= 1;
      }
      for (const client of clients.values()) client.close();
      return void i;
    };
    await Promise.all(Array.from({ length: ENDED_AT_ONCE }, (_, i) => end(i)));
  }

  async #beat(batch: readonly SoakLease[]): Promise<void> {
    const everyMs = TTL_MS / HEARTBEATS_PER_TTL;
    let client: Client | undefined;
    for (let at = performance.now() + Math.random() * everyMs; !this.#over; at += everyMs) {
      while (!this.#over && performance.now() < at) await sleep(Math.min(1_000, Math.max(0, at - performance.now())));
      if (this.#over) break;
      client ??= new Client((batch[0] as SoakLease).port, this.#tally);
      const leaseTokens = batch.map(({ token }) => token);
      const answer = await client.ask(
        [200],
        { method: 'POST', path: '/v1/leases/heartbeat', body: { leaseTokens } },
        () => !this.#over,
      );
      if (answer === undefined) break;
      const { items } = JSON.parse(answer.body) as { items: { status: number; code?: string; lost?: unknown[] }[] };
      for (const { status, code = '', lost = [] } of items) {
        if (status === 200 && lost.length === 0) this.#tally.heartbeats += 1;
        else if (status === 503) this.#tally.refused({ status, body: JSON.stringify({ code }) });
        else this.#tally.violation(`a heartbeat was answered ${status} ${code}, with ${lost.length} holds lost`);
      }
    }
    client?.close();
  }
}
