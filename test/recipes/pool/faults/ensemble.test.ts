/** Pools while the leader of three servers stands still, and another one takes over. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { startEnsemble } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { call, idsOf, leaseFor, NAME, put, show, type Acquired } from '../client.js';

const SIZE = 3;
const CALLERS = 6;
const TTL_MS = 40_000;
const WAIT_MS = 5_000;
/** Members that are given out, before, while and after the leader stands still. */
const GIVEN = 30;

class Callers {
  readonly complaints: string[] = [];
  given = 0;
  stopped = false;
  /** By member: who believes to have it. */
  readonly #holders = new Map<string, number>();

  /** Takes members and gives them back, at any replica. */
  async work(caller: number, lease: LeaseHandle, replicas: readonly Client[]): Promise<void> {
    for (let turn = caller; !this.stopped; turn += 1) {
      const requestId = randomUUID();
      const at = (tries: number): Client => replicas[(turn + tries) % replicas.length] as Client;
      const acquired = await this.#acquire(lease, requestId, 1 + (Math.floor(turn / 2) % 2), at);
      if (acquired === undefined) continue;
      const ids = idsOf(acquired);
      for (const id of ids) {
        const other = this.#holders.get(id);
        if (other !== undefined) this.complaints.push(`${id} was given to ${caller} while ${other} had it`);
        this.#holders.set(id, caller);
      }
      this.given += ids.length;
      // It has them for as long as an answer takes, so that somebody else could be given them meanwhile.
      await at(1).call('GET', `/v1/pools/${NAME}`);
      for (const id of ids) if (this.#holders.get(id) === caller) this.#holders.delete(id);
      await this.#release(lease, requestId, at);
    }
  }

  async #acquire(
    lease: LeaseHandle,
    requestId: string,
    count: number,
    at: (tries: number) => Client,
  ): Promise<Acquired | undefined> {
    for (let tries = 0; ; tries += 1) {
      const reply = await call(at(tries), 'acquire', lease, { requestId, count, waitMs: WAIT_MS });
      if (reply.status === 200) return reply.body as Acquired;
      if (reply.status === 409 && (reply.body as { code: string }).code === 'lock-held') return undefined;
      orAway(reply);
    }
  }

  async #release(lease: LeaseHandle, requestId: string, at: (tries: number) => Client): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      const reply = await call(at(tries), 'release', lease, { requestId });
      if (reply.status === 204) return;
      // An earlier try was done, and nobody was told.
      if (reply.status === 409 && tries > 0) return;
      orAway(reply);
    }
  }
}

/** @throws Error unless it is worth another try: the ensemble was away */
function orAway({ status, body }: Reply): void {
  if (status !== 503) throw new Error(`answered ${status}: ${JSON.stringify(body)}`);
}

test(
  'no member is given twice, and none is lost, while the leader stands still and another one takes over',
  { timeout: scaled(180_000) },
  async () => {
    await using ensemble = await startEnsemble();
    await using pair = await startPair({ zookeeper: ensemble.connectString });
    const { a, b } = pair;
    await put(a, { of: SIZE, quarantineMs: 3_600_000 });
    const leases = await Promise.all(Array.from({ length: CALLERS }, () => leaseFor(a, { ttlMs: TTL_MS })));
    const callers = new Callers();
    const working = Promise.all(leases.map((lease, i) => callers.work(i, lease, [a, b])));
    working.catch((error: unknown) => callers.complaints.push(String(error))); // awaited below
    const more = async (): Promise<void> => {
      const before = callers.given;
      const isOver = (): boolean => callers.complaints.length > 0 || callers.given >= before + GIVEN;
      await eventually(`${GIVEN} more are given`, isOver, { withinMs: scaled(40_000) });
      expect(callers.complaints).toEqual([]);
    };
    await more();
    const leader = await ensemble.leader();
    leader.pause();
    await more();
    leader.resume();
    await more();
    callers.stopped = true;
    await working;
    expect(callers.complaints).toEqual([]);
    await eventually('all are free', async () => (await show(b)).free === SIZE);
    expect(await show(a)).toMatchObject({ heldCount: 0, restingCount: 0, waiterCount: 0 });
  },
);
