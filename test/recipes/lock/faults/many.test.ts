/** Many locks in one call, when ZooKeeper can no longer be reached with some of them taken. */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startCuttable } from '../../../support/scene.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';

test('they are given back within one short time, and nobody is told that this was done before it is', async () => {
  const root = freshRoot();
  await using b = await startReplica({ root });
  const requestMs = scaled(2_000);
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: String(requestMs) } });
  const { replica: a, proxy } = cuttable;
  const [me, other] = [await b.createLease({ ttlMs: 60_000 }), await b.createLease({ ttlMs: 60_000 })];
  await b.hold('e', other);
  const waitMs = 5_000;
  const answer = a.call('POST', '/v1/locks/acquire', {
    leaseToken: me.leaseToken,
    body: { names: ['a', 'b', 'c', 'd', 'e'], waitMs },
  });
  await eventually('it waits for the last', async () => (await b.showLock('e')).waiterCount === 1);
  proxy.refuse();
  proxy.cut();
  const begunAt = performance.now();
  expect(await answer).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
  expect(performance.now() - begunAt).toBeLessThan(waitMs + requestMs + scaled(5_000));
  for (const name of ['a', 'b', 'c', 'd']) expect((await b.showLock(name)).holders).toHaveLength(1);
  proxy.accept();
  for (const name of ['a', 'b', 'c', 'd'])
    await eventually(`${name} is given back`, async () => (await b.showLock(name)).holders.length === 0);
});
