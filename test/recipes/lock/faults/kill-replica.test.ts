/** Replicas die and come back at any moment; the lock goes on from hand to hand. */
import { expect, test } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { passed } from '../../../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { Resource, rounds, seededRandom, Witness } from '../../../support/scene.js';

const TTL_MS = 20_000;
const CLIENTS = 6;
const HAND_OFFS = rounds(40);
/** A replica is killed about once in so many ms, and started again at once. */
const KILL_EVERY_MS = 2_500;
/** No client waits longer for its turn, whoever is killed. */
const STUCK_MS = scaled(40_000);

test(
  `the lock goes on from hand to hand while replicas are killed`,
  { timeout: scaled(120_000) + HAND_OFFS * 500 },
  async () => {
    const root = freshRoot();
    await using a = await spawnReplica({ root });
    await using b = await spawnReplica({ root });
    await using witness = await Witness.start(root);
    const random = seededRandom('kills');
    const resource = new Resource();
    const replicas = [a, b];
    let over = false;
    let kills = 0;
    let repeats = 0;
    let slowestMs = 0;

    const killing = (async () => {
      for (let i = 0; !over; i += 1) {
        await passed(random() * 2 * KILL_EVERY_MS);
        const victim = replicas[i % 2] as ReplicaProcess;
        await victim.kill();
        kills += 1;
        await victim.restart();
      }
    })();

    /** As a client should: the same request again, at the other replica, until it is answered. */
    async function persist(
      what: string,
      ask: (replica: ReplicaProcess) => Promise<{ status: number; body: unknown }>,
      done: readonly number[],
    ): Promise<{ status: number; body: unknown }> {
      const startedAt = performance.now();
      for (let i = Math.floor(random() * 2); ; i += 1) {
        const reply = await ask(replicas[i % 2] as ReplicaProcess).catch(() => undefined);
        if (reply !== undefined && done.includes(reply.status)) {
          slowestMs = Math.max(slowestMs, performance.now() - startedAt);
          return reply;
        }
        const retryable =
          reply === undefined ||
          (reply.body as { retryable?: boolean } | undefined)?.retryable === true ||
          reply.status === 202;
        if (!retryable) throw new Error(`${what} answered ${JSON.stringify(reply)}`);
        if (performance.now() - startedAt > STUCK_MS)
          throw new Error(`${what} does not come through: ${JSON.stringify(reply)}`);
        repeats += 1;
        await passed(20 + random() * 60);
      }
    }

    async function client(who: string): Promise<void> {
      const created = await persist(
        'a lease',
        (replica) => replica.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS, requestId: who.padEnd(22, '-') } }),
        [201],
      );
      const lease = created.body as LeaseHandle;
      for (let turn = 0; resource.used < HAND_OFFS; turn += 1) {
        const requestId = `turn-${turn}`;
        const granted = await persist(
          'acquire',
          (replica) => replica.acquire('relay', lease, { waitMs: 5_000, keepPlace: true, requestId }),
          [200],
        );
        const { fencingToken, holdId } = granted.body as { fencingToken: number; holdId: string };
        resource.enter(who, fencingToken);
        await passed(random() * 80);
        resource.leave(who);
        // A release that was cut off may have been done: then nothing of mine is held any more.
        await persist('release', (replica) => replica.release('relay', lease, { holdId }), [204, 409]);
      }
      // An end that was cut off may have been done, too.
      await persist('end', (replica) => replica.endLease(lease), [204, 410]);
    }

    const startedAt = performance.now();
    try {
      await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(`client-${i}`)));
    } finally {
      over = true;
      await killing;
    }
    console.log(
      `${resource.used} hand-offs in ${Math.round((performance.now() - startedAt) / 1_000)} s, ${kills} kills, ${repeats} repeated requests, slowest request with its repetitions ${Math.round(slowestMs)} ms`,
    );
    expect(resource.violations).toEqual([]);
    expect(resource.used).toBeGreaterThanOrEqual(HAND_OFFS);
    expect(kills).toBeGreaterThan(0);
    expect(await witness.line('relay')).toEqual([]);
  },
);
