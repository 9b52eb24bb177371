/** Transfers on three servers, whose replica is killed, whose leader of the ensemble goes, or whose candidate does. */
import { describe, expect, it } from 'vitest';
import { campaign, electionOf, leaseFor, speak, transfer } from '../client.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { spawnReplica, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot, startEnsemble } from '../../../support/start-zookeeper.js';
import { scaled, timing } from '../../../support/timing.js';

const TTL_MS = 60_000;
const NAME = 'throne';

interface Stood {
  lease: LeaseHandle;
  candidateId: string;
}

async function stand(replica: Replica): Promise<Stood> {
  const lease = await leaseFor(replica, { ttlMs: TTL_MS });
  return { lease, candidateId: ((await campaign(replica, NAME, lease)).body as Stood).candidateId };
}

async function leaderOf(replica: Replica): Promise<{ candidateId: string; fencingToken: number }> {
  return (await electionOf(replica, NAME)).leader as { candidateId: string; fencingToken: number };
}

describe('a transfer with grace on three servers', { timeout: scaled(120_000) }, () => {
  it('is carried out by another replica when the one that took it and the leader of the ensemble are killed (C80)', async () => {
    await using ensemble = await startEnsemble();
    const [root, zookeeper] = [freshRoot(), ensemble.connectString];
    await using doomed = await spawnReplica({ root, zookeeper });
    await using other = await startReplica({ root, zookeeper });
    const [old, overtaken, heir] = [await stand(other), await stand(other), await stand(other)];
    const before = await leaderOf(other);
    const tokens = [before.fencingToken];
    const graceMs = scaled(2_000);
    const asked = await transfer(doomed, NAME, { candidateId: heir.candidateId, graceMs });
    expect(asked.body).toMatchObject({ leads: false, overtaken: 1 });
    await doomed.kill();
    await (await ensemble.leader()).kill();
    await eventually(
      'the candidate leads',
      async () => {
        const reply = await other.call('GET', `/v1/elections/${NAME}`);
        if (reply.status !== 200) return false;
        const { leader } = reply.body as { leader: typeof before | null };
        // Never nobody, and never one who was overtaken.
        expect([old.candidateId, heir.candidateId]).toContain(leader?.candidateId);
        if (leader?.candidateId === old.candidateId) return false;
        tokens.push((leader as typeof before).fencingToken);
        return true;
      },
      { withinMs: timing.processMs, everyMs: 20 },
    );
    expect(tokens[1]).toBeGreaterThan(tokens[0] as number);
    expect((await speak(other, NAME, 'acknowledge', old.lease)).body).toMatchObject({ code: 'not-holder' });
    expect((await speak(other, NAME, 'acknowledge', heir.lease)).status).toBe(200);
    const { lost } = (await other.heartbeat(overtaken.lease)).body as { lost: unknown[] };
    expect(lost).toMatchObject([{ holdId: overtaken.candidateId, reason: 'overtaken' }]);
  });

  it('leaves the leader in the lead when the lease of the candidate has ended, whoever looks (C80)', async () => {
    await using ensemble = await startEnsemble();
    const [root, zookeeper] = [freshRoot(), ensemble.connectString];
    await using doomed = await spawnReplica({ root, zookeeper });
    await using other = await startReplica({ root, zookeeper });
    const [old, heir] = [await stand(other), await stand(other)];
    const graceMs = scaled(1_500);
    await transfer(doomed, NAME, { candidateId: heir.candidateId, graceMs });
    await doomed.kill();
    await other.endLease(heir.lease);
    await eventually('the leader is asked no more', async () => {
      expect((await leaderOf(other)).candidateId).toBe(old.candidateId);
      const { revocations } = (await other.heartbeat(old.lease)).body as { revocations: unknown[] };
      return revocations.length === 0;
    });
    // A candidate that comes now was not meant: nothing happens to the leader any more.
    await stand(other);
    const { control, layout } = other.gateway.context;
    expect((await control.getChildren(layout.pendingRevocations)).children).toEqual([]);
    expect((await leaderOf(other)).candidateId).toBe(old.candidateId);
    expect((await speak(other, NAME, 'acknowledge', old.lease)).status).toBe(200);
  });
});
