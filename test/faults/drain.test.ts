/**
 * Replicas that are stopped under load, one after the other: no request that was sent gets lost, and the only refusals
 * are those that say retry.
 */
import { describe, expect, test } from 'vitest';
import { eventually } from '../support/eventually.js';
import { spawnReplica, type ReplicaProcess } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { Balancer, type Outcome } from './balancer.js';

const CLIENTS = 12;
/** Longer than the balancer needs to see that a replica is not ready, on a busy machine too. */
const PAUSE_MS = scaled(2_000);

/** Clients that take a lock each, heartbeat, give it back, and look, over and over, until told to end. */
async function underLoad(
  replicas: readonly ReplicaProcess[],
  during: (balancer: Balancer, count: () => number) => Promise<void>,
): Promise<Outcome[]> {
  using balancer = new Balancer(replicas.map(({ url }) => url));
  const leases = await Promise.all(
    Array.from({ length: CLIENTS }, (_, i) => (replicas[i % replicas.length] as ReplicaProcess).createLease()),
  );
  const outcomes: Outcome[] = [];
  let ended = false;
  const clients = leases.map(async ({ leaseToken }, i) => {
    const headers = { 'lease-token': leaseToken };
    for (let round = 0; !ended; round += 1) {
      const [method, path] = [
        ['POST', `/v1/locks/mine-${i}/acquire`],
        ['POST', '/v1/leases/self/heartbeat'],
        ['GET', `/v1/locks/mine-${i}`],
        ['POST', `/v1/locks/mine-${i}/release`],
      ][round % 4] as [string, string];
      outcomes.push(await balancer.send(balancer.choose(i), method, path, headers));
    }
  });
  try {
    await during(balancer, () => outcomes.length);
  } finally {
    ended = true;
    await Promise.all(clients);
  }
  return outcomes;
}

async function startTwo(settings: Record<string, string>): Promise<ReplicaProcess[]> {
  const root = freshRoot();
  return [await spawnReplica({ root, settings }), await spawnReplica({ root, settings })];
}

/**
 * 409 `not-holder`: a release that is repeated after the replica had answered the first with a refusal to be repeated.
 */
function isFine({ what, retryable }: Outcome): boolean {
  return [200, 204, 409].includes(what as number) || (what === 503 && retryable);
}

describe('a rolling restart under load', () => {
  test(
    'with a pause loses no request, sends nobody to a closed port and ends in good order',
    { timeout: scaled(120_000) },
    async () => {
      const [a, b] = (await startTwo({ POSTERN_DRAIN_PAUSE_MS: String(PAUSE_MS) })) as [ReplicaProcess, ReplicaProcess];
      await using _a = a;
      await using _b = b;
      const outcomes = await underLoad([a, b], async (balancer, count) => {
        for (const replica of [a, b]) {
          const before = count();
          await eventually('there is load', () => count() > before + 20 * CLIENTS);
          expect(await replica.kill('SIGTERM')).toBe(0);
          await replica.restart();
          await eventually('it gets requests again', () => balancer.isReady(replica.url));
        }
        const after = count();
        await eventually('the load goes on', () => count() > after + 20 * CLIENTS);
      });
      expect(outcomes.filter((outcome) => !isFine(outcome))).toEqual([]);
      expect(outcomes.filter(({ reused }) => reused).length).toBeGreaterThan(outcomes.length / 2);
    },
  );

  test(
    'without a pause resets no connection: who was answered goes elsewhere',
    { timeout: scaled(120_000) },
    async () => {
      const [a, b] = (await startTwo({ POSTERN_DRAIN_PAUSE_MS: '0' })) as [ReplicaProcess, ReplicaProcess];
      await using _a = a;
      await using _b = b;
      const outcomes = await underLoad([a, b], async (_balancer, count) => {
        const before = count();
        await eventually('there is load', () => count() > before + 20 * CLIENTS);
        expect(await a.kill('SIGTERM')).toBe(0);
        const after = count();
        await eventually('the load goes on', () => count() > after + 20 * CLIENTS);
      });
      // Nobody listens any more: the request was not sent, and whoever sends it knows that.
      const refused = ({ what }: Outcome): boolean => what === 'ECONNREFUSED';
      expect(outcomes.filter((outcome) => !isFine(outcome) && !refused(outcome))).toEqual([]);
      expect(outcomes.some(({ reused, what }) => reused && what === 'ECONNREFUSED')).toBe(false);
    },
  );
});
