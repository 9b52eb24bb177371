/** Replicas that were not given the file, beside one that was: no namespace has two homes (ADR 41). */
import { expect, test } from 'vitest';
import { spawnReplica, startReplica } from '../support/start-gateway.js';
import { scaled, timing } from '../support/timing.js';
import { inNamespace, startTwo, untilInForce, untilRefused } from './two.js';

const ORDERS = inNamespace('orders');

test(
  'no namespace leaves an ensemble where a replica knows of no map, also if nobody has used it',
  { timeout: scaled(90_000) },
  async () => {
    await using two = await startTwo();
    const { root, east } = two;
    await using replica = await (async () => {
      await using unaware = await startReplica({ zookeeper: east.connectString, root });
      const aware = await two.start(two.file(2, { orders: 'west' }));
      await untilRefused(
        aware,
        /"orders" does not move .*: 1 of 2 processes .* no map, or have not told yet \(\S+:0\): .*POSTERN_ENSEMBLES/,
      );
      // One lock has one holder.
      const lease = await unaware.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, ...ORDERS });
      const { leaseToken } = lease as { leaseToken: string };
      await unaware.expect(200, 'POST', '/v1/locks/l/acquire', { body: {}, leaseToken });
      expect((await aware.expect(200, 'GET', '/v1/locks/l', ORDERS)).holders).toHaveLength(1);
      two.file(3, { fresh: 'west' });
      await untilRefused(aware, /"fresh" does not move to "west": 1 of 2 processes/);
      return aware;
    })();
    await untilInForce(replica, 3);
  },
);

test(
  'a replica that knows of no map reads it before anything else on each session',
  { timeout: scaled(120_000) },
  async () => {
    await using two = await startTwo();
    await using unaware = await spawnReplica({ zookeeper: two.east.connectString, root: two.root });
    await unaware.expect(201, 'PUT', '/v1/config/app', { body: 1 });
    unaware.pause();
    await using replica = await two.start(two.file(1, { orders: 'west' }));
    // What comes meanwhile it finds when it goes on.
    const late = Array.from({ length: 20 }, (_, i) =>
      unaware.call('PUT', `/v1/config/late-${i}`, { body: 1, ...ORDERS }),
    );
    await untilInForce(replica, 1);
    unaware.resume();
    for (const { status } of await Promise.all(late)) expect(status).toBe(503);
    await untilRefused(unaware, /Set POSTERN_ENSEMBLES/);
    expect((await unaware.call('GET', '/readyz')).status).toBe(503);
    expect((await unaware.expect(503, 'PUT', '/v1/config/app', { body: 2, ...ORDERS })).detail).toContain(
      'Set POSTERN_ENSEMBLES',
    );
  },
);

test('a map is not put in force beside a replica that comes after it was asked who knows of it', async () => {
  await using replica = await startReplica();
  const { floor, context } = replica.gateway.ensembles[0]!.foundation;
  const deadline = performance.now() + timing.processMs;
  const checks = await floor.unlessOthersCome(deadline);
  const zk = context.control.until(deadline);
  await zk.multi(checks);
  await using _later = await startReplica({ root: context.layout.root });
  await expect(zk.multi(checks)).rejects.toMatchObject({ reason: 'BAD_VERSION' });
});
