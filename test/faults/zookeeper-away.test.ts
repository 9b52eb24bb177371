/** ZooKeeper stands still, cannot be reached, or is dead: every request is answered in time and says what is known. */
import { expect, test } from 'vitest';
import { systemClock, type Clock } from '../../src/time.js';
import { eventually, throughout } from '../support/eventually.js';
import { startReplica } from '../support/start-gateway.js';
import { freshRoot, startZooKeeper } from '../support/start-zookeeper.js';
import { scaled } from '../support/timing.js';
import { Noise } from '../support/noise.js';
import { startCuttable, Witness } from '../support/scene.js';

const TIMEOUT_MS = scaled(1_000);
const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(TIMEOUT_MS) };
const TTL_MS = 20_000;
/** An answer is late when it comes this long after its deadline. */
const LATE_MS = scaled(700);

type Away = 'paused' | 'refusing' | 'dead';

for (const away of ['paused', 'refusing', 'dead'] as const satisfies readonly Away[]) {
  test(
    `every kind of request is answered by its deadline while ZooKeeper is ${away}`,
    { timeout: scaled(90_000) },
    async () => {
      await using zookeeper = await startZooKeeper({ proxied: true });
      await using a = await startReplica({ zookeeper: zookeeper.connectString, settings });
      const [me, other] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
      const { fencingToken, holdId } = await a.hold('held', me);
      if (away === 'paused') zookeeper.pause();
      if (away === 'refusing') {
        zookeeper.proxy.refuse();
        zookeeper.proxy.cut();
      }
      if (away === 'dead') await zookeeper.kill();
      const requests = {
        heartbeat: () => a.heartbeat(me),
        show: () => a.showLease(me),
        lease: () => a.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } }),
        acquire: () => a.acquire('free', other),
        wait: () => a.acquire('held', other, { waitMs: 500 }),
        oneCall: () => a.acquire('free', undefined, { lease: {}, requestId: 'r-00000000000000000000' }),
        lock: () => a.call('GET', '/v1/locks/held'),
        locks: () => a.call('GET', '/v1/locks'),
        check: () => a.call('POST', '/v1/locks/held/check', { body: { fencingToken } }),
        release: () => a.release('held', me, { holdId }),
      };
      using noise = new Noise();
      const answers = await Promise.all(
        Object.entries(requests).map(async ([what, ask]) => {
          const startedAt = performance.now();
          const { status, body } = await ask();
          const { code, outcome } = body as { code: string; outcome: string };
          const dueMs = TIMEOUT_MS + (what === 'wait' ? 500 : 0);
          const late = performance.now() - startedAt - noise.ms > dueMs + LATE_MS;
          return { what, status, code, outcome, late };
        }),
      );
      for (const { status, code, outcome, late } of answers) {
        expect({ status, late }).toEqual({ status: 503, late: false });
        expect([code, outcome]).toEqual(
          code === 'outcome-unknown' ? [code, 'unknown'] : ['zookeeper-unavailable', 'not-applied'],
        );
      }
      const codeOf = (name: keyof typeof requests) => answers.find(({ what }) => what === name)?.code;
      // What was sent and not answered may have been done; what only reads, or was never sent, was not.
      expect(codeOf('lock')).toBe('zookeeper-unavailable');
      expect(codeOf('heartbeat')).toBe('zookeeper-unavailable');
      if (away === 'paused') expect(codeOf('release')).toBe('outcome-unknown');
      if (away !== 'paused') expect(codeOf('release')).toBe('zookeeper-unavailable');
      if (away === 'paused') zookeeper.resume();
      if (away === 'refusing') zookeeper.proxy.accept();
      if (away === 'dead') await zookeeper.restart();
      await eventually(
        'the gateway has recovered by itself',
        async () => (await a.call('GET', '/v1/locks')).status === 200,
        { withinMs: scaled(20_000) },
      );
      // ZooKeeper honours the lease still: what was begun is found, and goes on.
      expect((await a.heartbeat(me)).status).toBe(200);
      expect([204, 409]).toContain((await a.release('held', me, { holdId })).status);
      // Whoever waited in vain is still being taken out of the line.
      expect((await a.hold('held', me, { waitMs: 10_000 })).fencingToken).toBeGreaterThan(fencingToken);
    },
  );
}

test(
  'requests go on waiting over a short outage, and get the lock afterwards',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using zookeeper = await startZooKeeper({ proxied: true });
    await using a = await startReplica({ zookeeper: zookeeper.connectString, root, settings });
    await using b = await startReplica({ zookeeper: zookeeper.connectString, root, settings });
    await using witness = await Witness.start(root, zookeeper.connectString);
    const [holder, me] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
    await a.hold('outage', holder);
    const waiting = b.hold('outage', me, { waitMs: 40_000 });
    await a.untilWaiting('outage', 1);
    await zookeeper.kill();
    await throughout('the replica stays ready', async () => (await b.call('GET', '/readyz')).status === 200, {
      forMs: 500,
    });
    await zookeeper.restart();
    // Given back by a request whose answer did not come in time, it is not held any more.
    await eventually('the hold is given back', async () =>
      [204, 409].includes((await a.release('outage', holder)).status),
    );
    expect((await waiting).fencingToken).toBe(await witness.holder('outage'));
  },
);

test(
  'a replica is out of service when ZooKeeper has been away for ten seconds, and not before',
  { timeout: scaled(60_000) },
  async () => {
    let ahead = 0;
    const clock: Clock = { now: () => systemClock.now() + ahead, monotonic: () => systemClock.monotonic() + ahead };
    await using cuttable = await startCuttable({ root: freshRoot(), clock });
    const { replica, proxy } = cuttable;
    const ready = async (): Promise<number> => (await replica.call('GET', '/readyz')).status;
    proxy.refuse();
    proxy.cut();
    await eventually('the loss is noticed', () => !replica.gateway.context.control.connected);
    ahead = 7_000;
    expect(await ready()).toBe(200);
    ahead = 10_000;
    expect(await ready()).toBe(503);
    expect((await replica.call('GET', '/healthz')).status).toBe(200);
    proxy.accept();
    await eventually('it is in service again', async () => (await ready()) === 200);
  },
);
