/** The event stream of a lock: its state first, then every change of the holder. */
import { describe, expect, it } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';

describe('the event stream of a lock', () => {
  it('begins with the state and tells every change of the holder, whichever replica made it', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000, label: 'one' }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await using events = await EventReader.open(pair.b.url, '/v1/locks/watched/events');
    expect(await events.next()).toMatchObject({ event: 'state', data: { name: 'watched', holders: [] } });

    const held = await pair.a.hold('watched', one, { data: { job: 7 } });
    const first = await events.next();
    expect(first).toMatchObject({
      event: 'state',
      data: {
        name: 'watched',
        holders: [
          {
            leaseId: one.leaseId,
            label: 'one',
            holdId: held.holdId,
            fencingToken: held.fencingToken,
            data: { job: 7 },
          },
        ],
      },
    });
    const lock = await pair.a.call('GET', '/v1/locks/watched');
    expect(first.data.holders).toEqual(lock.body.holders);
    expect(lock.headers['etag']).toBe(`"${first.id}"`);

    await pair.a.release('watched', one);
    expect(await events.next()).toMatchObject({ event: 'state', data: { holders: [] } });
    await pair.b.hold('watched', two);
    expect(await events.next()).toMatchObject({ event: 'state', data: { holders: [{ leaseId: two.leaseId }] } });
    await pair.a.endLease(two);
    expect(await events.next()).toMatchObject({ event: 'state', data: { holders: [] } });
    expect(events.pending).toEqual([]);
  });

  it('ends with the new holder when the lock is handed over to one who waits', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('handed', one);
    const waiting = pair.b.acquire('handed', two, { waitMs: 20_000 });
    await pair.a.untilWaiting('handed', 1);
    await using events = await EventReader.open(pair.a.url, '/v1/locks/handed/events');
    expect(await events.next()).toMatchObject({ data: { holders: [{ leaseId: one.leaseId }] } });
    await pair.b.release('handed', one);
    expect((await waiting).status).toBe(200);
    await eventually('the new holder is told', () => events.seen.at(-1)?.data.holders[0]?.leaseId === two.leaseId);
  });

  it('says nothing about newcomers in line', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([
      pair.a.createLease({ ttlMs: 20_000 }),
      pair.b.createLease({ ttlMs: 20_000 }),
    ]);
    await pair.a.hold('quiet', one);
    await using events = await EventReader.open(pair.a.url, '/v1/locks/quiet/events');
    await events.next();
    expect((await pair.b.acquire('quiet', two, { keepPlace: true })).status).toBe(202);
    await throughout('nothing is said', () => events.pending.length === 0 && !events.ended);
    expect((await pair.b.release('quiet', two)).status).toBe(204);
    await throughout('nothing is said', () => events.pending.length === 0 && !events.ended);
  });

  it('may be opened at the lock itself, and again with Last-Event-ID, which begins with the current state', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await using first = await EventReader.open(pair.a.url, '/v1/locks/resumed');
    const { id } = await first.next();
    expect(id).toMatch(/\S/);
    await pair.a.hold('resumed', lease);
    await using second = await EventReader.open(pair.b.url, '/v1/locks/resumed/events', {
      headers: { 'last-event-id': id! },
    });
    expect(await second.next()).toMatchObject({ event: 'state', data: { holders: [{ leaseId: lease.leaseId }] } });
  });

  it('ends with reconnect after maxMs', async () => {
    await using replica = await startReplica();
    const openedAt = performance.now();
    await using events = await EventReader.open(replica.url, '/v1/locks/brief/events?maxMs=500');
    expect((await events.next()).event).toBe('state');
    expect((await events.next()).event).toBe('reconnect');
    await eventually('the stream has ended', () => events.ended);
    expect(performance.now() - openedAt).toBeGreaterThanOrEqual(400);
  });

  it('lasts no longer than the longest wait, also when nothing was asked for', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_WAIT_MS: '600' } });
    await using events = await EventReader.open(replica.url, '/v1/locks/brief/events');
    expect((await events.next()).event).toBe('state');
    expect((await events.next()).event).toBe('reconnect');
    await eventually('the stream has ended', () => events.ended);
    for (const maxMs of ['601', '0', 'x']) {
      expect((await replica.call('GET', `/v1/locks/brief/events?maxMs=${maxMs}`)).body).toMatchObject({
        status: 422,
        field: 'maxMs',
      });
    }
  });

  it('ends with reconnect when the replica drains', async () => {
    await using pair = await startPair();
    await using events = await EventReader.open(pair.a.url, '/v1/locks/drained/events');
    expect((await events.next()).event).toBe('state');
    await pair.a.gateway.stop();
    expect((await events.next()).event).toBe('reconnect');
    await eventually('the stream has ended', () => events.ended);
  });
});
