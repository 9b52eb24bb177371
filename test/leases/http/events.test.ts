/**
 * The event stream of a lease: what it says, that it keeps the lease alive, and that it does so for `maxMs` at most.
 */
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../../support/eventually.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { EventReader, type OpenOptions } from '../../support/http/event-stream.js';
import { startPair, startReplica, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';

const EVENTS = '/v1/leases/self/events';

function open(replica: Replica, lease: LeaseHandle, query = '', options: OpenOptions = {}): Promise<EventReader> {
  return EventReader.open(replica.url, EVENTS + query, { leaseToken: lease.leaseToken, ...options });
}

/** The path of the only node in line for a lock. */
async function nodeOf(replica: Replica, name: string): Promise<string> {
  const { control, layout } = replica.gateway.context;
  const directory = layout.line('lock', 'default', name);
  const { children } = await control.getChildren(directory);
  expect(children).toHaveLength(1);
  return `${directory}/${children[0]}`;
}

describe('the event stream of a lease', () => {
  it('begins with the lease and what it holds', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000, label: 'job' });
    const { holdId, fencingToken } = await pair.a.hold('mine', lease);
    await using events = await open(pair.b, lease);
    const first = await events.next();
    expect(first.event).toBe('state');
    expect(first.id).toMatch(/\S/);
    expect(first.data).toMatchObject({
      leaseId: lease.leaseId,
      label: 'job',
      ttlMs: 10_000,
      holds: [{ kind: 'lock', name: 'mine', held: true, holdId, fencingToken }],
    });
    expect(JSON.stringify(first.data)).not.toContain(lease.leaseToken);
  });

  it.each([3_000, 60_000])(
    'says when it is the turn of a kept place, which only a request takes up (%d)',
    async (ttlMs) => {
      await using replica = await startReplica();
      const [holder, lease] = [await replica.createLease({ ttlMs: 10_000 }), await replica.createLease({ ttlMs })];
      await replica.hold('kept', holder);
      const asked = { requestId: 'r-1', waitMs: 1, keepPlace: true };
      expect((await replica.acquire('kept', lease, asked)).status).toBe(202);
      await using events = await open(replica, lease);
      expect(await events.next()).toMatchObject({ event: 'state', data: { holds: [{ name: 'kept', held: false }] } });
      await replica.release('kept', holder);
      const place = { kind: 'lock', name: 'kept', held: false, requestId: 'r-1' };
      expect(await events.next()).toMatchObject({ event: 'turn', data: place });
      expect(await replica.showLock('kept')).toMatchObject({ holders: [], waiters: [{ leaseId: lease.leaseId }] });
      const { holdId } = await replica.hold('kept', lease, asked);
      expect(await events.next()).toMatchObject({ event: 'granted', data: { name: 'kept', holdId } });
    },
  );

  it('says what is granted, at whichever replica', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 3_000 });
    await using events = await open(pair.a, lease);
    expect((await events.next()).event).toBe('state');
    const direct = await pair.b.hold('direct', lease, { requestId: 'r-1' });
    expect(await events.next()).toMatchObject({
      event: 'granted',
      data: {
        kind: 'lock',
        name: 'direct',
        holdId: direct.holdId,
        requestId: 'r-1',
        fencingToken: direct.fencingToken,
      },
    });
    const holder = await pair.b.createLease({ ttlMs: 10_000 });
    await pair.b.hold('awaited', holder);
    const waiting = pair.b.acquire('awaited', lease, { waitMs: 10_000 });
    await pair.a.untilWaiting('awaited', 1);
    expect(events.pending).toEqual([]); // a place in line is no grant
    await pair.a.release('awaited', holder);
    const { body } = await waiting;
    const granted = await events.next();
    expect(granted).toMatchObject({
      event: 'granted',
      data: { name: 'awaited', holdId: body.holdId, fencingToken: body.fencingToken },
    });
    expect(granted.id).toMatch(/\S/);
  });

  it('says which hold is lost although the lease lives, and not what the client has released itself', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 3_000 });
    const kept = await pair.a.hold('released', lease);
    const { holdId } = await pair.a.hold('taken', lease);
    await using events = await open(pair.b, lease);
    expect((await events.next()).event).toBe('state');
    expect((await pair.b.release('released', lease, { holdId: kept.holdId })).status).toBe(204);
    await pair.a.gateway.context.control.delete(await nodeOf(pair.a, 'taken'));
    expect(await events.next()).toMatchObject({
      event: 'lost',
      data: { kind: 'lock', name: 'taken', holdId, reason: 'missing' },
    });
    expect((await pair.a.heartbeat(lease)).status).toBe(200);
    await throughout('nothing more is said', () => events.pending.length === 0 && !events.ended);
  });

  it('says that the lease has ended, and ends with that', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 3_000 });
    await using events = await open(pair.a, lease);
    expect((await events.next()).event).toBe('state');
    expect((await pair.b.endLease(lease)).status).toBe(204);
    expect((await events.next()).event).toBe('expired');
    await eventually('the stream has ended', () => events.ended);
    expect(events.pending).toEqual([]);
  });

  it('keeps the lease alive while it is open, ends after maxMs with reconnect, and keeps nothing alive after that', async () => {
    await using pair = await startPair();
    const ttlMs = 3_000;
    const lease = await pair.a.createLease({ ttlMs });
    const openedAt = performance.now();
    await using events = await open(pair.a, lease, `?maxMs=${2.5 * ttlMs}`);
    expect((await events.next()).event).toBe('state');
    const isThere = async (): Promise<boolean> =>
      (await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).status === 200;
    await throughout('the lease lives', isThere, { forMs: 2 * ttlMs, everyMs: 50 });
    expect((await events.next()).event).toBe('reconnect');
    await eventually('the stream has ended', () => events.ended);
    const endedAfter = performance.now() - openedAt;
    expect(endedAfter).toBeGreaterThanOrEqual(2.5 * ttlMs - 50);
    expect(endedAfter).toBeLessThan(2.5 * ttlMs + scaled(2_000));
    expect(await isThere()).toBe(true);
    await pair.b.untilEnded(lease);
  });

  it('keeps the lease alive no longer when its reader has gone', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 3_000 });
    {
      await using events = await open(pair.a, lease);
      expect((await events.next()).event).toBe('state');
    }
    await pair.b.untilEnded(lease);
  });

  it('may be opened at the resource itself, and again with Last-Event-ID, which begins with the current state', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 10_000 });
    await using first = await EventReader.open(pair.a.url, '/v1/leases/self', { leaseToken: lease.leaseToken });
    const { id } = await first.next();
    await pair.a.hold('meanwhile', lease);
    await using second = await open(pair.b, lease, '', { headers: { 'last-event-id': id as string } });
    expect(await second.next()).toMatchObject({ event: 'state', data: { holds: [{ name: 'meanwhile' }] } });
  });

  it('refuses a maxMs beyond the longest wait and one that is no whole number above 0', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_WAIT_MS: '3000' } });
    const lease = await replica.createLease({ ttlMs: 10_000 });
    for (const maxMs of ['3001', '0', '-1', '1.5', 'long', '']) {
      const { status, body } = await replica.call('GET', `${EVENTS}?maxMs=${maxMs}`, { leaseToken: lease.leaseToken });
      expect(status, maxMs).toBe(422);
      expect(body, maxMs).toMatchObject({ code: 'invalid', field: 'maxMs' });
    }
    await using events = await open(replica, lease, '?maxMs=3000');
    expect((await events.next()).event).toBe('state');
  });

  it('ends with reconnect when the replica drains, and the lease goes on', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await using events = await open(pair.a, lease);
    expect((await events.next()).event).toBe('state');
    await pair.a.gateway.stop();
    expect((await events.next()).event).toBe('reconnect');
    await eventually('the stream has ended', () => events.ended);
    expect((await pair.b.heartbeat(lease)).status).toBe(200);
  });
});
