/** Ensembles whose servers keep sessions to themselves until they own something. */
import { expect, test } from 'vitest';
import { startReplica } from '../../support/start-gateway.js';
import { freshRoot, startEnsemble } from '../../support/start-zookeeper.js';
import { scaled } from '../../support/timing.js';

const TIMEOUT = { timeout: scaled(90_000) };
const TTL_MS = 4_000;

test('a lease is known to every server before its token is handed out (T1)', TIMEOUT, async () => {
  const config = { localSessionsEnabled: 'true', localSessionsUpgradingEnabled: 'true' };
  await using ensemble = await startEnsemble({ config });
  const [here, there] = await ensemble.followers();
  const root = freshRoot();
  await using a = await startReplica({ root, zookeeper: here?.connectString ?? '' });
  await using b = await startReplica({ root, zookeeper: there?.connectString ?? '' });
  for (let i = 0; i < 10; i += 1) {
    const lease = await a.createLease({ ttlMs: TTL_MS });
    expect((await b.heartbeat(lease)).status).toBe(200);
  }
});

test(
  'nothing is handed out where the ensemble would forget it on the way to another server (T1)',
  TIMEOUT,
  async () => {
    const config = { localSessionsEnabled: 'true', localSessionsUpgradingEnabled: 'false' };
    await using ensemble = await startEnsemble({ config });
    const [here] = await ensemble.followers();
    const zookeeper = here?.connectString ?? '';
    await using a = await startReplica({ root: freshRoot(), zookeeper, registers: false });
    const { status, body } = await a.call('POST', '/v1/leases', { body: { ttlMs: TTL_MS } });
    expect(status).toBe(500);
    const refusal = { outcome: 'not-applied', detail: expect.stringContaining('localSessionsUpgradingEnabled') };
    expect(body).toMatchObject(refusal);
    expect((await a.call('GET', '/v1/leases')).body).toMatchObject(refusal);
  },
);
