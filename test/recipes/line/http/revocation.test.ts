/** Holds that are asked back, and taken away when their grace period has passed. */
import { describe, expect, it } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 20_000;
const LONG_MS = 600_000;

interface News {
  revocations: { kind: string; name: string; holdId: string; reason?: string; breakAt?: string }[];
  lost: { kind: string; name: string; holdId: string; reason: string }[];
}

function revoke(replica: Client, name: string, body: Record<string, unknown> = {}, kind = 'locks'): Promise<Reply> {
  return replica.call('POST', `/v1/${kind}/${name}/revoke`, { body });
}

async function newsOf(replica: Client, lease: LeaseHandle): Promise<News> {
  const { status, body } = await replica.heartbeat(lease);
  expect(status).toBe(200);
  return body as News;
}

function holdForReading(replica: Client, name: string, lease: LeaseHandle): Promise<{ holdId: string }> {
  return replica.expect(200, 'POST', `/v1/rwlocks/${name}/acquire`, {
    body: { mode: 'read' },
    leaseToken: lease.leaseToken,
  }) as Promise<{ holdId: string }>;
}

/** Names of what is kept about revocations. */
async function kept({ gateway }: Replica): Promise<{ pending: string[]; leases: string[] }> {
  const { control, layout } = gateway.context;
  const children = async (path: string): Promise<string[]> => {
    await control.sync(path);
    return (await control.exists(path)) === undefined ? [] : (await control.getChildren(path)).children;
  };
  return { pending: await children(layout.pendingRevocations), leases: await children(layout.revocations) };
}

describe('a revocation', () => {
  it('without grace only asks: the holder learns it in its heartbeats until it releases', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('asked', lease);
    const reply = await revoke(pair.b, 'asked', { reason: 'please' });
    expect(reply.status).toBe(200);
    expect(reply.body).toEqual({ holds: [{ holdId }] });
    for (const replica of [pair.a, pair.b])
      expect(await newsOf(replica, lease)).toMatchObject({
        revocations: [{ kind: 'lock', name: 'asked', holdId, reason: 'please' }],
        lost: [],
      });
    await throughout('it is held', async () => (await pair.b.showLock('asked')).holders.length === 1);
    expect((await pair.b.release('asked', lease, { holdId })).status).toBe(204);
    expect(await newsOf(pair.a, lease)).toMatchObject({ revocations: [], lost: [] });
  });

  it('with grace breaks the hold when that has passed, not before; the next in line has it, and the holder is told until its lease ends', async () => {
    await using pair = await startPair();
    const [holder, next] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    const { holdId, fencingToken } = await pair.a.hold('taken', holder);
    const waiting = pair.b.hold('taken', next, { waitMs: 20_000 });
    await pair.a.untilWaiting('taken', 1);
    const graceMs = scaled(1_500);
    const askedAt = performance.now();
    const { body } = await revoke(pair.a, 'taken', { graceMs, reason: 'now' });
    expect(await newsOf(pair.b, holder)).toMatchObject({
      revocations: [{ holdId, reason: 'now', breakAt: body.breakAt }],
      lost: [],
    });
    const granted = await waiting;
    const tookMs = performance.now() - askedAt;
    expect(tookMs).toBeGreaterThanOrEqual(graceMs - 50);
    expect(tookMs).toBeLessThan(graceMs + scaled(1_000));
    expect(granted.fencingToken).toBeGreaterThan(fencingToken);
    for (const replica of [pair.a, pair.b, pair.a])
      expect(await newsOf(replica, holder)).toMatchObject({
        revocations: [],
        lost: [{ kind: 'lock', name: 'taken', holdId, reason: 'broken' }],
      });
    expect((await pair.a.release('taken', holder, { holdId })).body).toMatchObject({ code: 'not-holder' });
    expect((await pair.a.showLock('taken')).holders).toMatchObject([{ holdId: granted.holdId }]);
    expect((await newsOf(pair.b, next)).lost).toEqual([]);
  });

  it('with no grace at all has broken the hold when it is answered', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pair.a.hold('at-once', lease);
    expect((await revoke(pair.b, 'at-once', { graceMs: 0 })).status).toBe(200);
    expect((await pair.b.showLock('at-once')).holders).toEqual([]);
    expect((await newsOf(pair.a, lease)).lost).toMatchObject([{ name: 'at-once', reason: 'broken' }]);
    expect(await pair.b.hold('at-once', lease)).toMatchObject({ alreadyHeld: false });
  });

  it('is told in the event stream of the lease at once, wherever that is read, and to a stream that is opened later', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('streamed', lease);
    const open = (): Promise<EventReader> =>
      EventReader.open(pair.b.url, '/v1/leases/self/events', { leaseToken: lease.leaseToken });
    await using events = await open();
    expect((await events.next()).event).toBe('state');
    const { body } = await revoke(pair.a, 'streamed', { graceMs: LONG_MS, reason: 'soon' });
    // Far below a third of the TTL, at which the stream looks by itself.
    expect(await events.next(3_000)).toMatchObject({
      event: 'revocation-requested',
      data: { kind: 'lock', name: 'streamed', holdId, reason: 'soon', breakAt: body.breakAt },
    });
    const graceMs = scaled(1_000);
    await revoke(pair.a, 'streamed', { graceMs });
    expect(await events.next(3_000)).toMatchObject({ event: 'revocation-requested', data: { holdId } });
    expect(await events.next(graceMs + 3_000)).toMatchObject({ event: 'lost', data: { holdId, reason: 'broken' } });
    await throughout('it is said once', () => events.pending.length === 0);
    await using later = await open();
    expect((await later.next()).event).toBe('state');
    expect(await later.next()).toMatchObject({ event: 'lost', data: { holdId, reason: 'broken' } });
  });

  it('that comes twice has the earlier end, in whichever order they come', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pair.a.hold('twice', lease);
    const first = (await revoke(pair.a, 'twice', { graceMs: LONG_MS })).body as { breakAt: string };
    const later = (await revoke(pair.b, 'twice', { graceMs: 2 * LONG_MS })).body as { breakAt: string };
    expect(later.breakAt).toBe(first.breakAt);
    expect((await revoke(pair.b, 'twice')).body).toMatchObject({ breakAt: first.breakAt });
    const both = await Promise.all([
      revoke(pair.a, 'twice', { graceMs: LONG_MS / 2 }),
      revoke(pair.b, 'twice', { graceMs: LONG_MS / 3 }),
    ]);
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    const { revocations } = await newsOf(pair.a, lease);
    expect(revocations.map(({ breakAt }) => breakAt)).toEqual([(both[1]?.body as { breakAt: string }).breakAt]);
    expect((await kept(pair.a)).pending).toHaveLength(1);
  });

  it('meets the hold that it names and no later one', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('again', lease);
    await revoke(pair.a, 'again', { holdId, graceMs: scaled(1_500) });
    expect((await pair.b.release('again', lease, { holdId })).status).toBe(204);
    const second = await pair.b.hold('again', lease);
    await eventually('the revocation is over', async () => (await kept(pair.a)).pending.length === 0);
    await throughout('the second hold stands', async () => {
      const { holders } = (await pair.a.showLock('again')) as { holders: { holdId: string }[] };
      return holders[0]?.holdId === second.holdId;
    });
    expect(await newsOf(pair.a, lease)).toMatchObject({ revocations: [], lost: [] });
    expect((await revoke(pair.a, 'again', { holdId, graceMs: 0 })).body).toMatchObject({ code: 'not-holder' });
  });

  it('asks all who share a read-write lock, or one of them', async () => {
    await using pair = await startPair();
    const leases = await Promise.all([1, 2, 3].map(() => pair.a.createLease({ ttlMs: TTL_MS })));
    const [one, two, three] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    const held = await Promise.all([one, two].map((lease) => holdForReading(pair.a, 'book', lease)));
    const writing = pair.b.call('POST', '/v1/rwlocks/book/acquire', {
      body: { mode: 'write', waitMs: 20_000 },
      leaseToken: three.leaseToken,
    });
    await eventually('the writer waits', async () => {
      const { waiterCount } = (await pair.a.expect(200, 'GET', '/v1/rwlocks/book')) as { waiterCount: number };
      return waiterCount === 1;
    });
    const some = await revoke(pair.b, 'book', { holdId: held[1]?.holdId, graceMs: 0 }, 'rwlocks');
    expect(some.body).toMatchObject({ holds: [{ holdId: held[1]?.holdId }] });
    expect((await newsOf(pair.a, one)).revocations).toEqual([]);
    expect((await newsOf(pair.a, two)).lost).toMatchObject([{ kind: 'rwlock', name: 'book', reason: 'broken' }]);
    expect((await revoke(pair.a, 'book', { graceMs: 0 }, 'rwlocks')).body).toMatchObject({
      holds: [{ holdId: held[0]?.holdId }],
    });
    expect((await writing).status).toBe(200);
  });

  it('of what nobody holds is refused', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.a.createLease({ ttlMs: TTL_MS }),
    ]);
    const nobody = await revoke(pair.a, 'free', { graceMs: 0 });
    expect(nobody.status).toBe(409);
    expect(nobody.body).toMatchObject({ code: 'not-holder' });
    await pair.a.hold('line', holder);
    await pair.a.expect(202, 'POST', '/v1/locks/line/acquire', {
      body: { keepPlace: true },
      leaseToken: waiter.leaseToken,
    });
    expect((await revoke(pair.a, 'line', { holdId: 'nonsense', graceMs: 0 })).status).toBe(409);
    for (const body of [
      { graceMs: -1 },
      { graceMs: 1.5 },
      { reason: 'x'.repeat(201) },
      { holdId: '' },
      { force: true },
    ])
      expect((await revoke(pair.a, 'line', body)).status, JSON.stringify(body)).toBe(422);
    expect((await pair.b.showLock('line')).holders).toHaveLength(1);
  });

  it('leaves nothing behind when the lease has ended or the hold was released', async () => {
    await using replica = await startReplica({ housekeeping: { everyMs: 100, idleMs: 600_000 } });
    const [broken, released, ended] = (await Promise.all(
      [1, 2, 3].map(() => replica.createLease({ ttlMs: TTL_MS })),
    )) as [LeaseHandle, LeaseHandle, LeaseHandle];
    await replica.hold('one', broken);
    await replica.hold('two', released);
    await replica.hold('three', ended);
    await revoke(replica, 'one', { graceMs: 0 });
    await revoke(replica, 'two');
    await revoke(replica, 'three', { graceMs: LONG_MS });
    expect((await kept(replica)).leases).toHaveLength(3);
    await replica.release('two', released);
    await replica.endLease(ended);
    await eventually('only the broken one is kept', async () => {
      const { leases, pending } = await kept(replica);
      return pending.length === 0 && leases.join() === broken.leaseId;
    });
    await throughout(
      'it is told as long as the lease lives',
      async () => (await newsOf(replica, broken)).lost.length === 1,
    );
    await replica.endLease(broken);
    await eventually('nothing is kept', async () => (await kept(replica)).leases.length === 0);
  });

  it("asks a holder that is none of Postern's in Curator's way, and does not break it", async () => {
    await using pair = await startPair();
    const { control, layout } = pair.a.gateway.context;
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await pair.a.hold('foreign', lease);
    const directory = layout.line('lock', 'default', 'foreign');
    const curators = `${directory}/_c_123e4567-e89b-42d3-a456-426614174000-lock-`;
    const { path } = await control.create(curators, Buffer.from('10.0.0.1'), { mode: 'ephemeral-sequential' });
    await pair.a.release('foreign', lease);
    const { status, body } = await revoke(pair.b, 'foreign', { graceMs: 0 });
    expect(status).toBe(200);
    expect(body).toEqual({ holds: [{ holdId: null }] });
    expect(String((await control.getData(path)).data)).toBe('__REVOKE__');
    await control.delete(path);
  });
});

describe("Curator's request to let go, written over one of our nodes", () => {
  async function overwrite({ gateway }: Replica, name: string, index: number): Promise<string> {
    const { control, layout } = gateway.context;
    const directory = layout.line('lock', 'default', name);
    await control.sync(directory);
    const { children } = await control.getChildren(directory);
    const bySequence = [...children].sort((a, b) => (a.slice(-10) < b.slice(-10) ? -1 : 1));
    const path = `${directory}/${bySequence[index] as string}`;
    await control.setData(path, Buffer.from('__REVOKE__'));
    return path;
  }

  it('takes no hold away, and is told to the lease as a revocation without end', async () => {
    await using pair = await startPair();
    const [lease, other] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.a.createLease({ ttlMs: TTL_MS }),
    ]);
    const { holdId } = await pair.a.hold('ours', lease, { requestId: 'r' });
    await overwrite(pair.b, 'ours', 0);
    expect((await pair.b.acquire('ours', other)).status).toBe(409);
    expect((await pair.b.showLease(lease)).body).toMatchObject({ holds: [{ name: 'ours', held: true, holdId }] });
    expect(await newsOf(pair.a, lease)).toMatchObject({ revocations: [{ name: 'ours', holdId }], lost: [] });
    expect((await pair.a.showLock('ours')).holders).toMatchObject([{ leaseId: lease.leaseId, external: false }]);
    expect((await pair.a.release('ours', lease, { holdId })).status).toBe(204);
    expect(await newsOf(pair.b, lease)).toMatchObject({ revocations: [], lost: [] });
  });

  it('is told by housekeeping to a lease that only heartbeats', async () => {
    await using replica = await startReplica({ housekeeping: { everyMs: 100, idleMs: 600_000 } });
    const lease = await replica.createLease({ ttlMs: TTL_MS });
    const { holdId } = await replica.hold('silent', lease);
    await overwrite(replica, 'silent', 0);
    await eventually('it is told', async () => (await newsOf(replica, lease)).revocations[0]?.holdId === holdId);
    expect((await newsOf(replica, lease)).lost).toEqual([]);
  });

  it('leaves a repeated acquire its hold, as one that it had, and tells the lease', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    const { holdId } = await pair.a.hold('repeated', lease);
    await overwrite(pair.b, 'repeated', 0);
    expect(await pair.b.hold('repeated', lease)).toMatchObject({ holdId, alreadyHeld: true });
    expect((await newsOf(pair.a, lease)).revocations).toMatchObject([{ name: 'repeated', holdId }]);
  });

  it('leaves a waiting request its place, and the lock to it when its turn comes', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    await pair.a.hold('waited', holder);
    const waiting = pair.b.acquire('waited', waiter, { waitMs: 20_000 });
    await pair.a.untilWaiting('waited', 1);
    await overwrite(pair.a, 'waited', 1);
    expect((await pair.a.release('waited', holder)).status).toBe(204);
    expect((await waiting).status).toBe(200);
    expect((await pair.a.showLock('waited')).holders).toMatchObject([{ leaseId: waiter.leaseId, external: false }]);
  });

  it('leaves nothing in line of a wait that was in vain', async () => {
    await using pair = await startPair();
    const [holder, waiter] = await Promise.all([
      pair.a.createLease({ ttlMs: TTL_MS }),
      pair.b.createLease({ ttlMs: TTL_MS }),
    ]);
    await pair.a.hold('vain', holder);
    const waiting = pair.b.acquire('vain', waiter, { waitMs: scaled(1_000) });
    await pair.a.untilWaiting('vain', 1);
    await overwrite(pair.a, 'vain', 1);
    expect((await waiting).status).toBe(409);
    expect(await pair.a.showLock('vain')).toMatchObject({ waiterCount: 0 });
  });
});
