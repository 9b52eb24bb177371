/** Lock-delay: what a lost hold excluded stays excluded for a while; what was given up does not. */
import { describe, expect, it } from 'vitest';
import { lockDelaysOf } from '../../../../src/leases/layout.js';
import { Witness } from '../../../support/scene.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, startPair, startReplica, type Pair, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 20_000;
/** Of a lease that is to expire by itself. */
const SHORT_MS = scaled(3_000);
const DELAY_MS = scaled(1_500);
/** A grant follows the end of a delay within this. */
const ON_TIME_MS = scaled(1_000);
/** Never reached in a test: what is refused because of it would be refused for ever. */
const LONG_DELAY_MS = 60_000;

function acquireMode(
  replica: Replica,
  name: string,
  lease: LeaseHandle,
  body: Record<string, unknown>,
): Promise<Reply> {
  return replica.call('POST', `/v1/rwlocks/${name}/acquire`, { body, leaseToken: lease.leaseToken });
}

/** A hold that is lost. */
async function lose(pair: Pair, name: string, lockDelayMs: number): Promise<void> {
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await pair.a.hold(name, lease, { lockDelayMs });
  await expireSession(pair.b, lease.leaseId);
}

async function marks(witness: Witness, name: string): Promise<string[]> {
  const path = lockDelaysOf(witness.directory(name));
  await witness.control.sync(path);
  return (await witness.control.getChildren(path).catch(() => ({ children: [] }))).children;
}

describe('a lock-delay', () => {
  it('keeps a lost lock from everybody, at both replicas, and says until when (C16)', async () => {
    await using pair = await startPair();
    const next = await pair.b.createLease({ ttlMs: TTL_MS });
    const lease = await pair.a.createLease({ ttlMs: SHORT_MS });
    await pair.a.hold('lost', lease, { lockDelayMs: LONG_DELAY_MS });
    await pair.b.untilEnded(lease);
    const refusal = await pair.b.acquire('lost', next);
    expect(refusal.status).toBe(409);
    expect(refusal.body).toMatchObject({ code: 'lock-held', name: 'lost', retryable: true });
    expect(refusal.body).not.toHaveProperty('holder');
    const { lockedUntil } = refusal.body as { lockedUntil: string };
    for (const replica of [pair.a, pair.b]) {
      expect(await replica.showLock('lost')).toMatchObject({ holders: [], waiterCount: 0, lockedUntil });
      expect((await replica.acquire('lost', next, { waitMs: 10 })).body).toMatchObject({ lockedUntil });
    }
  });

  it('is over when it has passed, and nothing is left of it (C16)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const next = await pair.b.createLease({ ttlMs: TTL_MS });
    await lose(pair, 'passed', DELAY_MS);
    const { lockedUntil } = (await pair.b.acquire('passed', next)).body as { lockedUntil: string };
    await eventually('it is granted', async () => (await pair.a.acquire('passed', next)).status === 200);
    const [held] = await witness.line('passed');
    expect(held?.stat.mtime).toBeGreaterThanOrEqual(Date.parse(lockedUntil));
    expect(await pair.b.showLock('passed')).not.toHaveProperty('lockedUntil');
    expect(await marks(witness, 'passed')).toEqual([]);
  });

  it('wakes the waiters when it has passed, in the order of the line', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const doomed = await pair.a.createLease({ ttlMs: TTL_MS });
    await pair.a.hold('queue', doomed, { lockDelayMs: DELAY_MS });
    const order: string[] = [];
    const grantedAt: number[] = [];
    const waiting: Promise<void>[] = [];
    for (const [i, replica] of [pair.b, pair.a, pair.b].entries()) {
      const lease = await pair.a.createLease({ ttlMs: TTL_MS });
      const waits = replica.acquire('queue', lease, { waitMs: TTL_MS }).then(async ({ status }) => {
        expect(status).toBe(200);
        grantedAt.push((await witness.line('queue'))[0]?.record?.grantedAt ?? 0);
        order.push(`waiter ${i}`);
        expect((await pair.a.release('queue', lease)).status).toBe(204);
      });
      waiting.push(waits);
      await pair.a.untilWaiting('queue', i + 1);
    }
    await expireSession(pair.b, doomed.leaseId);
    const shown = (await eventually('the delay runs', async () => {
      const line = (await pair.a.showLock('queue')) as { lockedUntil?: string };
      return line.lockedUntil === undefined ? undefined : line;
    })) as { lockedUntil: string };
    expect(shown).toMatchObject({ holders: [], waiterCount: 3 });
    await Promise.all(waiting);
    expect(order).toEqual(['waiter 0', 'waiter 1', 'waiter 2']);
    expect((grantedAt[0] ?? 0) - Date.parse(shown.lockedUntil)).toBeLessThan(ON_TIME_MS);
  });

  it('follows neither a release, by whatever it names the hold and at whichever replica, nor the end of the wait', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const [lease, next] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    for (const replica of [pair.a, pair.b]) {
      for (const by of ['holdId', 'requestId'] as const) {
        const { holdId } = await pair.a.hold('released', lease, { requestId: 'r', lockDelayMs: LONG_DELAY_MS });
        expect(await marks(witness, 'released')).toEqual([holdId]);
        const what = by === 'holdId' ? { holdId } : { requestId: 'r' };
        expect((await replica.release('released', lease, what)).status).toBe(204);
        expect(await marks(witness, 'released')).toEqual([]);
        await pair.b.hold('released', next);
        // Refused, and so given up: nothing of it is left.
        const inVain = { requestId: 'r', lockDelayMs: LONG_DELAY_MS, waitMs: 20 };
        expect((await pair.a.acquire('released', lease, inVain)).status).toBe(409);
        expect((await pair.b.release('released', next)).status).toBe(204);
      }
    }
    expect(await pair.a.showLock('released')).not.toHaveProperty('lockedUntil');
  });

  it('is carried over a hand-over inside a replica, and ends with each release (T6)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const leases = await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: TTL_MS })));
    const [first, second, third] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    const { holdId } = await pair.a.hold('handed', first); // without: the hand-over is the first to need a mark
    const waiting = [second, third].map(async (lease, i) => {
      if (i === 1) await pair.a.untilWaiting('handed', 1);
      return pair.a.acquire('handed', lease, { waitMs: TTL_MS, lockDelayMs: LONG_DELAY_MS });
    });
    await pair.a.untilWaiting('handed', 2);
    expect(await marks(witness, 'handed')).toEqual([]);
    expect((await pair.a.release('handed', first, { holdId })).status).toBe(204);
    const handed = (await (waiting[0] as Promise<Reply>)).body as { holdId: string };
    expect(await marks(witness, 'handed')).toEqual([handed.holdId]);
    expect((await pair.a.release('handed', second, { holdId: handed.holdId })).status).toBe(204);
    const again = (await (waiting[1] as Promise<Reply>)).body as { holdId: string };
    expect(await marks(witness, 'handed')).toEqual([again.holdId]);
    expect((await pair.a.release('handed', third)).status).toBe(204);
    expect(await marks(witness, 'handed')).toEqual([]);
  });

  it('does not follow the end of a lease by its owner, by an administrator, or a one-call lease', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const next = await pair.b.createLease({ ttlMs: TTL_MS });
    const ends: ((lease: LeaseHandle) => Promise<Reply>)[] = [
      (lease) => pair.b.endLease(lease),
      (lease) => pair.b.call('DELETE', `/v1/leases/${lease.leaseId}`),
    ];
    for (const end of ends) {
      const lease = await pair.a.createLease({ ttlMs: TTL_MS });
      await pair.a.hold('ended', lease, { lockDelayMs: LONG_DELAY_MS });
      expect((await end(lease)).status).toBe(204);
      await pair.b.hold('ended', next);
      expect((await pair.b.release('ended', next)).status).toBe(204);
    }
    const body = { lease: { ttlMs: TTL_MS }, requestId: 'one-000000000000000000', lockDelayMs: LONG_DELAY_MS };
    const inOneCall = (await pair.a.acquire('ended', undefined, body)).body as LeaseHandle & { holdId: string };
    expect(await marks(witness, 'ended')).toEqual([inOneCall.holdId]);
    expect((await pair.b.endLease(inOneCall)).status).toBe(204);
    expect(await marks(witness, 'ended')).toEqual([]);
    await pair.b.hold('ended', next);
  });

  it('does not follow a revocation that breaks the hold', async () => {
    await using pair = await startPair();
    const [lease, next] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    await pair.a.hold('broken', lease, { lockDelayMs: LONG_DELAY_MS });
    const waiting = pair.b.acquire('broken', next, { waitMs: TTL_MS });
    await pair.a.untilWaiting('broken', 1);
    expect((await pair.b.call('POST', '/v1/locks/broken/revoke', { body: { graceMs: 0 } })).status).toBe(200);
    expect((await waiting).status).toBe(200);
    expect(await pair.a.showLock('broken')).not.toHaveProperty('lockedUntil');
  });

  it('is none when it is 0, and then nothing is written for it', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const next = await pair.b.createLease({ ttlMs: TTL_MS });
    await lose(pair, 'none', 0);
    await pair.b.hold('none', next, { lockDelayMs: 0 });
    expect(await marks(witness, 'none')).toEqual([]);
    expect((await witness.control.getData(witness.directory('none'))).stat.version).toBe(0);
  });

  it('does not follow the loss of one who only waited', async () => {
    await using pair = await startPair();
    const [holder, next] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    await pair.a.hold('waited', holder);
    const lost = await pair.a.createLease({ ttlMs: TTL_MS });
    const kept = await pair.a.acquire('waited', lost, { keepPlace: true, lockDelayMs: LONG_DELAY_MS });
    expect(kept.status).toBe(202);
    await expireSession(pair.b, lost.leaseId);
    expect((await pair.a.release('waited', holder)).status).toBe(204);
    await pair.b.hold('waited', next);
  });

  it('of a hold is not changed by a repeated request', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('repeated', lease, { lockDelayMs: LONG_DELAY_MS });
    const again = await pair.b.hold('repeated', lease, { lockDelayMs: 0 });
    expect(again).toMatchObject({ holdId, alreadyHeld: true });
    expect(await marks(witness, 'repeated')).toEqual([holdId]);
    expect((await pair.b.release('repeated', lease)).status).toBe(204);
    expect(await marks(witness, 'repeated')).toEqual([]);
    const plain = await pair.a.hold('repeated', lease);
    expect(await pair.b.hold('repeated', lease, { lockDelayMs: LONG_DELAY_MS })).toMatchObject({
      holdId: plain.holdId,
    });
    expect(await marks(witness, 'repeated')).toEqual([]);
  });

  it('is that of each of many locks', async () => {
    await using pair = await startPair();
    const [lease, next] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    const names = ['many-1', 'many-2'];
    const many = { body: { names, lockDelayMs: DELAY_MS }, leaseToken: lease.leaseToken };
    await pair.a.expect(200, 'POST', '/v1/locks/acquire', many);
    await expireSession(pair.b, lease.leaseId);
    for (const name of names)
      expect((await pair.b.acquire(name, next)).body).toMatchObject({
        name,
        lockedUntil: expect.any(String) as string,
      });
    const waiting = { body: { names, waitMs: TTL_MS }, leaseToken: next.leaseToken };
    await pair.b.expect(200, 'POST', '/v1/locks/acquire', waiting);
  });

  it('of a lost writer excludes everybody, of a lost reader writers only', async () => {
    await using pair = await startPair();
    const [next, other] = await Promise.all([
      pair.b.createLease({ ttlMs: TTL_MS }),
      pair.a.createLease({ ttlMs: TTL_MS }),
    ]);
    const loseIn = async (mode: string): Promise<void> => {
      const lease = await pair.a.createLease({ ttlMs: TTL_MS });
      const body = { mode, lockDelayMs: LONG_DELAY_MS };
      expect((await acquireMode(pair.a, `lost-${mode}`, lease, body)).status).toBe(200);
      await expireSession(pair.b, lease.leaseId);
    };
    await Promise.all([loseIn('read'), loseIn('write')]);
    for (const mode of ['read', 'write'])
      expect((await acquireMode(pair.b, 'lost-write', next, { mode })).body).toMatchObject({
        code: 'lock-held',
        lockedUntil: expect.any(String) as string,
      });
    expect((await acquireMode(pair.b, 'lost-read', next, { mode: 'read' })).status).toBe(200);
    const refused = await acquireMode(pair.a, 'lost-read', other, { mode: 'write' });
    expect(refused.body).toMatchObject({ code: 'lock-held', holder: { leaseId: next.leaseId } });
    expect(refused.body).toHaveProperty('lockedUntil');
    const shown = (await pair.a.expect(200, 'GET', '/v1/rwlocks/lost-read')) as unknown;
    expect(shown).toMatchObject({ holderCount: 1, lockedUntil: (refused.body as { lockedUntil: string }).lockedUntil });
  });

  it('holds also where a directory that another client made was removed meanwhile (C10)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const next = await pair.b.createLease({ ttlMs: TTL_MS });
    await lose(pair, 'removed', LONG_DELAY_MS);
    await witness.control.delete(witness.directory('removed'));
    expect((await pair.b.acquire('removed', next, { waitMs: 100 })).body).toMatchObject({
      lockedUntil: expect.any(String) as string,
    });
    expect((await pair.a.acquire('removed', next)).body).toHaveProperty('lockedUntil');
  });

  it('is found, and its marks are removed, by housekeeping where nobody looks', async () => {
    const root = freshRoot();
    await using replica = await startReplica({ root, housekeeping: { everyMs: 50, idleMs: 200, removedAfterMs: 200 } });
    await using witness = await Witness.start(root);
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    await replica.hold('unseen', lease, { lockDelayMs: 300 });
    expect(await marks(witness, 'unseen')).toHaveLength(1);
    await expireSession(replica, lease.leaseId);
    await eventually('the mark is gone', async () => (await marks(witness, 'unseen')).length === 0);
    await eventually('the directories are gone', async () => {
      const at = [witness.directory('unseen'), lockDelaysOf(witness.directory('unseen'))];
      return (await Promise.all(at.map((path) => witness.control.exists(path)))).every((stat) => stat === undefined);
    });
  });

  it('that is no whole number of ms from 0 to 60 000 is refused, and nothing is done', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    for (const lockDelayMs of [-1, 60_001, 1.5, '5000', null]) {
      const reply = await pair.a.acquire('bad', lease, { lockDelayMs });
      expect(reply.status).toBe(422);
      expect(reply.body).toMatchObject({ code: 'invalid', field: 'lockDelayMs' });
    }
    expect((await pair.a.acquire('bad', lease, { lockDelayMs: 60_001 })).body).toMatchObject({
      detail: expect.stringMatching(/60001.*60000|60 000/) as string,
    });
    const semaphore = { body: { limit: 1, lockDelayMs: 1 }, leaseToken: lease.leaseToken };
    expect((await pair.a.call('POST', '/v1/semaphores/bad/acquire', semaphore)).status).toBe(422);
    await throughout('nobody holds', async () => ((await pair.b.showLock('bad')).holders as unknown[]).length === 0);
  });
});
