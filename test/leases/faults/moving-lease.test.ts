/**
 * One lease, eight clients, two replicas: its session moves back and forth, no faster than turns allow, and nobody gets
 * a wrong answer.
 */
import { expect, test } from 'vitest';
import { TURN_MS } from '../../../src/leases/attached-lease.js';
import { startPair } from '../../support/start-gateway.js';
import { env } from 'node:process';
import { scaled } from '../../support/timing.js';
import { Witness } from '../../support/scene.js';

const CLIENTS = 8;
/** `FAULT_SECONDS=60` for a minute of it. */
const FOR_MS = Number(env['FAULT_SECONDS'] ?? 4) * 1_000;
/** The session is moved a hundred times a second, and lives all the while. */
const TTL_MS = 4_000;

test(
  'a lease that eight clients use through two replicas at once loses and doubles nothing (C5)',
  { timeout: scaled(60_000) + FOR_MS },
  async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const me = await pair.a.createLease({ ttlMs: TTL_MS });
    const replicas = [pair.a, pair.b];
    const unexpected: string[] = [];
    const counts = new Map<string, number>();
    const startedAt = performance.now();
    const until = startedAt + FOR_MS;
    let holds = 0;

    const count = (what: string, status: number): void =>
      void counts.set(`${what} ${status}`, (counts.get(`${what} ${status}`) ?? 0) + 1);

    async function client(i: number): Promise<void> {
      const name = `own-${i}`;
      for (let round = 0; performance.now() < until; round += 1) {
        const [here, there] = [
          replicas[(round + i) % 2] as (typeof pair)['a'],
          replicas[(round + i + 1) % 2] as (typeof pair)['a'],
        ];
        const acquired = await here.acquire(name, me);
        count('acquire', acquired.status);
        if (acquired.status !== 200) unexpected.push(`acquire ${JSON.stringify(acquired.body)}`);
        const { fencingToken, holdId } = acquired.body as { fencingToken: number; holdId: string };
        const [beaten, again] = await Promise.all([here.heartbeat(me), there.acquire(name, me)]);
        count('heartbeat', beaten.status);
        if (beaten.status !== 200) unexpected.push(`heartbeat ${JSON.stringify(beaten.body)}`);
        if (again.status !== 200 || (again.body as { fencingToken: number }).fencingToken !== fencingToken)
          unexpected.push(`held ${fencingToken}, and then ${JSON.stringify(again.body)}`);
        const released = await there.release(name, me, round % 2 === 0 ? { holdId } : {});
        count('release', released.status);
        if (released.status !== 204) unexpected.push(`release ${JSON.stringify(released.body)}`);
        holds += 1;
      }
    }

    await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(i)));
    const tookMs = performance.now() - startedAt;
    const moves =
      (await pair.a.metric('postern_lease_attaches_total', { reason: 'moved' })) +
      (await pair.b.metric('postern_lease_attaches_total', { reason: 'moved' }));
    console.log(
      `${holds} holds and ${moves} moves in ${FOR_MS / 1_000} s: ${JSON.stringify(Object.fromEntries(counts))}`,
    );
    expect(unexpected).toEqual([]);
    expect(moves).toBeGreaterThan(10);
    expect(moves).toBeLessThan(tookMs / TURN_MS);
    for (let i = 0; i < CLIENTS; i += 1) expect(await witness.line(`own-${i}`)).toEqual([]);
    expect((await pair.a.heartbeat(me)).status).toBe(200);
  },
);
