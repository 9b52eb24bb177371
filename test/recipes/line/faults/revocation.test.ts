/** Revocations whose replica is killed, or has lost ZooKeeper: the hold is broken on time all the same. */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { spawnReplica, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 30_000;

describe('a revocation with grace', () => {
  it('is carried out on time by another replica when the one that took it is killed (C17)', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    const lease = await other.createLease({ ttlMs: TTL_MS });
    const { holdId } = await other.hold('killed', lease);
    const graceMs = scaled(1_500);
    const askedAt = performance.now();
    await doomed.expect(200, 'POST', '/v1/locks/killed/revoke', { body: { graceMs } });
    await doomed.kill();
    expect((await other.showLock('killed')).holders).toHaveLength(1);
    await eventually('it is broken', async () => ((await other.showLock('killed')).holders as unknown[]).length === 0);
    const tookMs = performance.now() - askedAt;
    expect(tookMs).toBeGreaterThanOrEqual(graceMs - 50);
    expect(tookMs).toBeLessThan(graceMs + scaled(1_000));
    expect((await other.heartbeat(lease)).body).toMatchObject({ lost: [{ holdId, reason: 'broken' }] });
  });

  it('is carried out by a replica that starts after all that knew of it were killed (C17)', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    const lease = await doomed.createLease({ ttlMs: TTL_MS });
    await doomed.hold('all-killed', lease);
    await doomed.expect(200, 'POST', '/v1/locks/all-killed/revoke', { body: { graceMs: scaled(1_000) } });
    await doomed.kill();
    await using late = await startReplica({ root });
    await eventually(
      'it is broken',
      async () => ((await late.showLock('all-killed')).holders as unknown[]).length === 0,
    );
    expect((await late.heartbeat(lease)).body).toMatchObject({ lost: [{ name: 'all-killed', reason: 'broken' }] });
  });
});
