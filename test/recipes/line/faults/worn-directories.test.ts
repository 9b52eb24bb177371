/** Lines and turns whose sequence numbers come to an end: ZooKeeper repeats the last one for ever (C39). */
import { describe, expect, test } from 'vitest';
import { PLACES_END, renewDirectory, WORN_FROM } from '../../../../src/recipes/line/worn-directory.js';
import { LAST_SEQUENCE, nextSequence } from '../../../../src/zookeeper/paths.js';
import { eventually } from '../../../support/eventually.js';
import type { startReplica } from '../../../support/start-gateway.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';
import { wearOut } from '../../../support/zookeeper/worn-directories.js';

const TTL_MS = 20_000;
const HOUR = 3_600_000;
const SEQUENTIAL = { mode: 'ephemeral-sequential' } as const;
const SWEEPING = { everyMs: 50, idleMs: HOUR };
/** Not within a test: housekeeping renews a worn directory as soon as it finds it empty. */
const NO_SWEEPING = { everyMs: 24 * HOUR, idleMs: HOUR };

function lineOf(root: string, kind: string, name: string): string {
  return `${root}/ns/default/${kind}/${name}`;
}

async function nextIn(replica: Replica, directory: string): Promise<number | undefined> {
  const stat = await replica.gateway.context.control.exists(directory);
  return stat && nextSequence(stat);
}

/** Replicas at a server in which locks of these names were used, and have these numbers next. */
async function startWorn(next: Readonly<Record<string, number>>, options: Parameters<typeof startReplica>[0] = {}) {
  const root = freshRoot();
  const zookeeper = await startZooKeeper();
  const pair = await startPair({ zookeeper: zookeeper.connectString, root, housekeeping: NO_SWEEPING, ...options });
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  for (const name of Object.keys(next)) {
    await pair.a.hold(name, lease);
    await pair.a.release(name, lease);
  }
  await pair.a.endLease(lease);
  await wearOut(
    zookeeper,
    Object.fromEntries(Object.entries(next).map(([name, number]) => [lineOf(root, 'locks', name), number])),
  );
  await pair.a.untilReady();
  await pair.b.untilReady();
  return {
    ...pair,
    zookeeper,
    async [Symbol.asyncDispose]() {
      await pair[Symbol.asyncDispose]();
      await zookeeper.stop();
    },
  };
}

test('a server does not wrap: the last number comes again and again', { timeout: scaled(60_000) }, async () => {
  await using worn = await startWorn({ full: LAST_SEQUENCE - 1 });
  const { control } = worn.a.gateway.context;
  const directory = lineOf(worn.root, 'locks', 'full');
  const made: string[] = [];
  for (const name of ['a-', 'b-', 'c-'])
    made.push((await control.create(`${directory}/${name}`, undefined, { mode: 'persistent-sequential' })).path);
  expect(made.map((path) => path.slice(directory.length + 1))).toEqual([
    `a-${LAST_SEQUENCE - 1}`,
    `b-${LAST_SEQUENCE}`,
    `c-${LAST_SEQUENCE}`,
  ]);
  expect(await nextIn(worn.a, directory)).toBe(LAST_SEQUENCE);
});

describe('a line at the end of its numbers', () => {
  test('begins at 0 again when nobody stands in it, and nobody notices', { timeout: scaled(60_000) }, async () => {
    await using worn = await startWorn({ full: LAST_SEQUENCE - 3, nearly: PLACES_END });
    const lease = await worn.a.createLease({ ttlMs: TTL_MS });
    for (const name of ['full', 'nearly']) {
      const { fencingToken } = await worn.a.hold(name, lease);
      expect(await worn.b.expect(200, 'POST', `/v1/locks/${name}/check`, { body: { fencingToken } })).toMatchObject({
        current: true,
      });
      expect(await nextIn(worn.a, lineOf(worn.root, 'locks', name))).toBe(1);
    }
  });

  test('begins at 0 again with a turn at a lock by priority', { timeout: scaled(60_000) }, async () => {
    await using worn = await startWorn({ full: LAST_SEQUENCE - 3, nearly: PLACES_END });
    const lease = await worn.a.createLease({ ttlMs: TTL_MS });
    for (const name of ['full', 'nearly']) {
      const { holdId } = await worn.a.hold(name, lease, { priority: 1 });
      expect(await nextIn(worn.a, lineOf(worn.root, 'locks', name))).toBe(1);
      expect(await worn.b.hold(name, lease, { priority: 1 })).toMatchObject({ holdId, alreadyHeld: true });
    }
  });

  test(
    'has one holder at most, and takes nobody while somebody stands in it',
    { timeout: scaled(90_000) },
    async () => {
      await using worn = await startWorn({ full: PLACES_END - 2 });
      const leases = await Promise.all(
        Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? worn.a : worn.b).createLease({ ttlMs: TTL_MS })),
      );
      const [first, second, ...others] = leases as [(typeof leases)[0], (typeof leases)[0], ...typeof leases];
      await worn.a.hold('full', first, { requestId: 'r' });
      const waiting = worn.b.acquire('full', second, { waitMs: 20_000, keepPlace: true });
      await worn.b.untilWaiting('full', 1);
      const refusals = await Promise.all(
        others.map((lease, i) => (i % 2 === 0 ? worn.a : worn.b).acquire('full', lease, { waitMs: 5_000 })),
      );
      for (const refused of refusals)
        expect(refused).toMatchObject({
          status: 503,
          body: { code: 'zookeeper-unavailable', outcome: 'not-applied', retryable: true },
        });
      expect(await worn.a.hold('full', first, { requestId: 'r' })).toMatchObject({ alreadyHeld: true });
      expect(await worn.a.showLock('full')).toMatchObject({ waiterCount: 1 });
      expect((await worn.a.release('full', first, { requestId: 'r' })).status).toBe(204);
      expect((await waiting).status).toBe(200);
      expect((await worn.b.release('full', second)).status).toBe(204);
      await worn.a.hold('full', first);
      expect(await nextIn(worn.a, lineOf(worn.root, 'locks', 'full'))).toBeLessThan(10);
    },
  );

  test(
    'lets two replicas never hold at once, though all numbers are the last one',
    { timeout: scaled(90_000) },
    async () => {
      await using worn = await startWorn({ full: LAST_SEQUENCE - 2 });
      let [holding, granted, most] = [0, 0, 0];
      await Promise.all(
        Array.from({ length: 8 }, async (_, i) => {
          const replica = i % 2 === 0 ? worn.a : worn.b;
          const lease = await replica.createLease({ ttlMs: TTL_MS });
          // Who comes while another one stands there is refused: how many are is the machine's.
          for (let round = 0; round < 20 || granted <= 20; round += 1) {
            const { status, body } = await replica.acquire('full', lease, { waitMs: 5_000 });
            expect([200, 503], JSON.stringify(body)).toContain(status);
            if (status !== 200) continue;
            holding += 1;
            granted += 1;
            most = Math.max(most, holding);
            await new Promise(setImmediate);
            holding -= 1;
            await replica.release('full', lease);
          }
        }),
      );
      expect(most).toBe(1);
      expect(granted).toBeGreaterThan(20);
    },
  );

  test('is made anew once: not by somebody who found it worn before that', { timeout: scaled(60_000) }, async () => {
    await using worn = await startWorn({ full: LAST_SEQUENCE - 1 });
    const { control } = worn.a.gateway.context;
    const directory = lineOf(worn.root, 'locks', 'full');
    const zk = control.until(performance.now() + timing.eventuallyMs);
    const [mine, theirs] = await Promise.all(
      ['mine', 'theirs'].map((name) => control.create(`${directory}/_c_${name}-lock-`, undefined, SEQUENTIAL)),
    );
    expect(await renewDirectory(zk, directory, mine?.path)).toBe(false); // theirs stands there
    await zk.remove(mine?.path ?? '');
    expect(await renewDirectory(zk, directory, theirs?.path)).toBe(true);
    const lease = await worn.b.createLease({ ttlMs: TTL_MS });
    await worn.b.hold('full', lease);
    await worn.b.release('full', lease);
    expect(await nextIn(worn.a, directory)).toBe(1);
    // It has the version of the old one, and is empty again.
    expect(await renewDirectory(zk, directory, mine?.path)).toBe(false);
    expect(await nextIn(worn.a, directory)).toBe(1);
  });

  test(
    'is made anew by housekeeping long before, at a moment in which it is empty',
    { timeout: scaled(60_000) },
    async () => {
      await using worn = await startWorn({ used: WORN_FROM, young: WORN_FROM - 100 }, { housekeeping: SWEEPING });
      const used = lineOf(worn.root, 'locks', 'used');
      await eventually('the numbers begin again', async () => (await nextIn(worn.a, used)) === 0);
      expect(await nextIn(worn.a, lineOf(worn.root, 'locks', 'young'))).toBe(WORN_FROM - 100);
      const lease = await worn.a.createLease({ ttlMs: TTL_MS });
      await worn.a.hold('used', lease);
      expect(await nextIn(worn.a, used)).toBe(1);
    },
  );
});

test(
  'a semaphore keeps its limit, and an election elects, beyond the end of their numbers',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using zookeeper = await startZooKeeper();
    await using pair = await startPair({ zookeeper: zookeeper.connectString, root, housekeeping: NO_SWEEPING });
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { leaseToken } = lease;
    await pair.a.expect(200, 'POST', '/v1/semaphores/s/acquire', { leaseToken, body: { limit: 3 } });
    await pair.a.expect(200, 'POST', '/v1/elections/e/campaign', { leaseToken, body: {} });
    await pair.a.endLease(lease);
    await pair.a.untilEnded(lease);
    await wearOut(zookeeper, {
      [lineOf(root, 'semaphores', 's')]: LAST_SEQUENCE - 1,
      [lineOf(root, 'elections', 'e')]: LAST_SEQUENCE - 1,
    });
    await Promise.all([pair.a.untilReady(), pair.b.untilReady()]);
    const [one, two] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.b.createLease({ ttlMs: TTL_MS })];
    await pair.a.expect(200, 'POST', '/v1/semaphores/s/acquire', { leaseToken: one.leaseToken, body: { limit: 3 } });
    const other = await pair.b.call('POST', '/v1/semaphores/s/acquire', {
      leaseToken: two.leaseToken,
      body: { limit: 4 },
    });
    expect(other).toMatchObject({ status: 409, body: { code: 'conflict', limit: 3 } });
    await pair.a.expect(200, 'POST', '/v1/elections/e/campaign', { leaseToken: one.leaseToken, body: {} });
    const late = await pair.b.call('POST', '/v1/elections/e/campaign', { leaseToken: two.leaseToken, body: {} });
    expect(late).toMatchObject({ status: 202, body: { position: 1 } });
  },
);

test(
  'the turns of replicas at a queue begin at 0 again, and no message is lost or comes twice',
  { timeout: scaled(90_000) },
  async () => {
    const root = freshRoot();
    await using zookeeper = await startZooKeeper();
    await using pair = await startPair({ zookeeper: zookeeper.connectString, root, housekeeping: NO_SWEEPING });
    const push = (from: number, count: number): Promise<unknown> =>
      pair.a.expect(201, 'POST', '/v1/queues/q/messages', {
        body: { messages: Array.from({ length: count }, (_, i) => ({ body: from + i })) },
      });
    await push(0, 1);
    const { control, layout } = pair.a.gateway.context;
    const { id } = JSON.parse((await control.getData(layout.queue('default', 'q'))).data.toString('utf8')) as {
      id: string;
    };
    const takers = `${layout.queueData('default', id)}/takers`;
    for (const from of [WORN_FROM + 5, LAST_SEQUENCE - 2]) {
      await wearOut(zookeeper, { [takers]: from });
      await Promise.all([pair.a.untilReady(), pair.b.untilReady()]);
      await push(1, 199);
      const got: number[] = [];
      const giveUpAt = performance.now() + scaled(20_000);
      const consume = async (replica: Replica): Promise<void> => {
        // Where everything stands still for a moment, a wait may be in vain although there is something.
        for (let empty = 0; empty < 2 || (got.length < 200 && performance.now() < giveUpAt);) {
          const reply = await replica.call('POST', '/v1/queues/q/pop', { body: { max: 1, waitMs: 200 } });
          expect([200, 204, 503]).toContain(reply.status);
          if (reply.status === 204) empty += 1;
          if (reply.status === 200)
            got.push(...(reply.body as { items: { body: number }[] }).items.map(({ body }) => body));
        }
      };
      await Promise.all([pair.a, pair.b, pair.a, pair.b].map(consume));
      expect(got.sort((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, i) => i));
      await eventually(
        'the numbers have begun again',
        async () => ((await nextIn(pair.a, takers)) ?? LAST_SEQUENCE) < WORN_FROM,
      );
      await push(0, 1);
    }
  },
);
