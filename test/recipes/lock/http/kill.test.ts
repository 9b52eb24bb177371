/** Replicas that are killed with SIGKILL: what their clients hold and wait for is at the next replica as it was. */
import { describe, expect, it } from 'vitest';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { spawnReplica, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';

describe('a replica that is killed', () => {
  it('takes no lease and no lock with it: heartbeat, check and release go on at the other one', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    const lease = await doomed.createLease({ ttlMs: 10_000, label: 'survivor' });
    const { holdId, fencingToken } = await doomed.hold('survives', lease, { requestId: 'r' });
    await doomed.kill();
    expect((await other.heartbeat(lease)).body).toMatchObject({ leaseId: lease.leaseId, lost: [] });
    expect(await other.expect(200, 'POST', '/v1/locks/survives/check', { body: { fencingToken } })).toEqual({
      current: true,
      latestFencingToken: fencingToken,
    });
    expect((await other.showLease(lease)).body).toMatchObject({
      label: 'survivor',
      holds: [{ name: 'survives', held: true, holdId }],
    });
    expect(await other.hold('survives', lease, { requestId: 'r' })).toMatchObject({
      holdId,
      fencingToken,
      alreadyHeld: true,
    });
    expect((await other.release('survives', lease, { holdId })).status).toBe(204);
    expect(await other.showLock('survives')).toMatchObject({ holders: [], waiterCount: 0 });
  });

  it('loses no place: its waiters repeat their requests at the other one and keep their order', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    const [holder, one, two, late] = (await Promise.all(
      [1, 2, 3, 4].map(() => other.createLease({ ttlMs: 20_000 })),
    )) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
    const first = await other.hold('waited-for', holder);
    const cutOff = [];
    for (const [index, lease] of [one, two].entries()) {
      cutOff.push(doomed.acquire('waited-for', lease, { waitMs: 30_000 }));
      await other.untilWaiting('waited-for', index + 1);
    }
    const failures = Promise.allSettled(cutOff);
    await doomed.kill();
    expect((await failures).map(({ status }) => status)).toEqual(['rejected', 'rejected']);

    const lateOne = other.acquire('waited-for', late, { waitMs: 20_000 });
    await other.untilWaiting('waited-for', 3);
    const second = other.acquire('waited-for', two, { waitMs: 20_000 });
    const repeated = other.acquire('waited-for', one, { waitMs: 20_000 });
    await eventually(
      'all three wait there',
      async () => (await other.metric('postern_waiters', { kind: 'lock' })) === 3,
    );
    const { waiters } = (await other.showLock('waited-for')) as { waiters: { leaseId: string }[] };
    expect(waiters.map(({ leaseId }) => leaseId)).toEqual([one, two, late].map(({ leaseId }) => leaseId));

    let last = first.fencingToken;
    for (const [lease, waiting, holding] of [
      [one, repeated, holder],
      [two, second, one],
      [late, lateOne, two],
    ] as const) {
      expect((await other.release('waited-for', holding)).status).toBe(204);
      const { body } = await waiting;
      expect(body).toMatchObject({ held: true, leaseId: lease.leaseId });
      expect(body.fencingToken).toBeGreaterThan(last);
      last = body.fencingToken as number;
    }
  });

  it('does not lose a one-call acquire whose answer it could not give', async () => {
    const root = freshRoot();
    await using doomed = await spawnReplica({ root });
    await using other = await startReplica({ root });
    const holder = await other.createLease({ ttlMs: 20_000 });
    await other.hold('one-call', holder);
    const request = { lease: { ttlMs: 20_000 }, requestId: 'r-00000000000000000000', waitMs: 20_000 };
    const cutOff = Promise.allSettled([doomed.acquire('one-call', undefined, request)]);
    await other.untilWaiting('one-call', 1);
    const [{ leaseId }] = (await other.showLock('one-call')).waiters;
    await doomed.kill();
    expect((await cutOff)[0].status).toBe('rejected');
    const repeated = other.acquire('one-call', undefined, request);
    await eventually('it waits there', async () => (await other.metric('postern_waiters', { kind: 'lock' })) === 1);
    await other.release('one-call', holder);
    const { body } = await repeated;
    expect(body).toMatchObject({ held: true, leaseId });
    expect((await other.expect(200, 'GET', '/v1/leases')).items).toHaveLength(2);
    expect((await other.endLease(body as LeaseHandle)).status).toBe(204);
  });

  it('lets a new one on the same port go on with what it had', async () => {
    const root = freshRoot();
    await using replica = await spawnReplica({ root });
    const lease = await replica.createLease({ ttlMs: 20_000 });
    const { holdId } = await replica.hold('restarted', lease);
    await replica.kill();
    await replica.restart();
    expect((await replica.heartbeat(lease)).status).toBe(200);
    expect((await replica.release('restarted', lease, { holdId })).status).toBe(204);
  });
});
