/** Reservations as callers see them, over two replicas (protocol C56, C57, C58). */
import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { Witness } from '../../../support/scene.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import {
  CLOCK_MS,
  extendBy,
  giveBack,
  isFree,
  LONG_MS,
  newRequestId,
  reservationOf,
  reserved,
  tryToReserve,
  type Reserved,
} from '../client.js';

const SHORT_MS = 1_500;

describe('a reservation', () => {
  test('holds the lock without a lease, is shown with owner, reason and end, and is freed by its token', async () => {
    await using pair = await startPair();
    const before = Date.now();
    const held = await reserved(pair.a, 'staging', { reason: 'release 4.2' });
    const until = Date.parse(held.reservedUntil);
    expect(until).toBeGreaterThanOrEqual(before + LONG_MS - CLOCK_MS);
    expect(until).toBeLessThanOrEqual(Date.now() + LONG_MS + CLOCK_MS);
    expect(await reservationOf(pair.b, 'staging')).toMatchObject({
      leaseId: null,
      holdId: held.holdId,
      fencingToken: held.fencingToken,
      reservation: { owner: 'ann', reason: 'release 4.2', until: held.reservedUntil },
    });
    const lease = await pair.b.createLease();
    expect((await pair.b.acquire('staging', lease)).body).toMatchObject({
      code: 'lock-held',
      holder: { leaseId: null, owner: 'ann', reservedUntil: held.reservedUntil, fencingToken: held.fencingToken },
    });
    expect((await tryToReserve(pair.b, 'staging', { owner: 'bob' })).body).toMatchObject({ code: 'lock-held' });
    const check = { body: { fencingToken: held.fencingToken } };
    expect(await pair.b.expect(200, 'POST', '/v1/locks/staging/check', check)).toMatchObject({ current: true });
    expect((await giveBack(pair.b, 'staging', held)).status).toBe(204);
    const next = await pair.b.hold('staging', lease);
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    expect((await giveBack(pair.a, 'staging', held)).body).toMatchObject({ code: 'not-holder' });
  });

  test('leaves neither a lease nor a node behind', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const held = await reserved(pair.a, 'tidy');
    expect(await witness.line('tidy')).toMatchObject([{ stat: { ephemeralOwner: 0n } }]);
    await eventually('its lease has ended', async () => {
      const { items } = (await pair.b.expect(200, 'GET', '/v1/leases')) as { items: unknown[] };
      return items.length === 0;
    });
    expect(await giveBack(pair.a, 'tidy', held)).toMatchObject({ status: 204 });
    expect(await witness.line('tidy')).toEqual([]);
    expect(await witness.control.getChildren(witness.layout.reservationsOf('default'))).toMatchObject({ children: [] });
  });

  test('is freed at its end by the clock of the ensemble, and not earlier; whoever waits behind it is granted', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, 'short', { forMs: SHORT_MS });
    const until = Date.parse(held.reservedUntil);
    const lease = await pair.b.createLease();
    await pair.b.hold('short', lease, { waitMs: 20_000 });
    const late = Date.now() - until;
    expect(late).toBeGreaterThanOrEqual(-CLOCK_MS);
    expect(late).toBeLessThan(scaled(2_000));
    expect((await extendBy(pair.a, 'short', held, LONG_MS)).body).toMatchObject({ code: 'not-holder' });
    expect((await giveBack(pair.a, 'short', held)).body).toMatchObject({ code: 'not-holder' });
  });

  test('stands in the line in order of arrival, between those with leases', async () => {
    await using pair = await startPair();
    const [first, third] = [await pair.a.createLease(), await pair.b.createLease()];
    const hold = await pair.a.hold('queue', first);
    const second = reserved(pair.b, 'queue', { waitMs: 20_000 });
    await pair.a.untilWaiting('queue', 1);
    const last = pair.a.hold('queue', third, { waitMs: 20_000 });
    await pair.b.untilWaiting('queue', 2);
    await pair.a.release('queue', first);
    const held = await second;
    expect(held.fencingToken).toBeGreaterThan(hold.fencingToken);
    await throughout('the last still waits', async () => (await pair.b.showLock('queue')).waiterCount === 1);
    await giveBack(pair.a, 'queue', held);
    expect((await last).fencingToken).toBeGreaterThan(held.fencingToken);
  });

  test('can be extended, never shortened, and its observers are told', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, 'longer', { forMs: 10_000 });
    await using events = await EventReader.open(pair.b.url, '/v1/locks/longer/events');
    await events.next();
    const { body } = await extendBy(pair.b, 'longer', held, LONG_MS);
    const until = (body as Reserved).reservedUntil;
    expect(Date.parse(until)).toBeGreaterThan(Date.parse(held.reservedUntil));
    expect(await events.next()).toMatchObject({ data: { holders: [{ reservation: { until } }] } });
    expect((await extendBy(pair.a, 'longer', held, 1_000)).body).toMatchObject({ reservedUntil: until });
    expect(await reservationOf(pair.a, 'longer')).toMatchObject({ reservation: { until } });
  });

  test('is extended by another replica shortly before its end, and then stands until the new one', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, 'late', { forMs: 1_000 });
    const { body } = await extendBy(pair.b, 'late', held, 2 * SHORT_MS);
    const until = Date.parse((body as Reserved).reservedUntil);
    await eventually('it is free', () => isFree(pair.a, 'late'));
    expect(Date.now()).toBeGreaterThanOrEqual(until - CLOCK_MS);
  });
});

describe('a repeated request', () => {
  test('is answered with the same reservation, through any replica, and its token serves', async () => {
    await using pair = await startPair();
    const requestId = newRequestId();
    const first = await reserved(pair.a, 'again', { requestId });
    const again = await reserved(pair.b, 'again', { requestId, forMs: 2 * LONG_MS });
    expect(again).toMatchObject({
      alreadyHeld: true,
      holdId: first.holdId,
      reservedUntil: first.reservedUntil,
      requestId,
    });
    expect((await tryToReserve(pair.b, 'again', { requestId, owner: 'bob' })).body).toMatchObject({
      code: 'conflict',
      retryable: false,
      owner: 'ann',
    });
    expect((await giveBack(pair.a, 'again', again)).status).toBe(204);
    const anew = await reserved(pair.b, 'again', { requestId });
    expect(anew.alreadyHeld).toBe(false);
    expect((await giveBack(pair.a, 'again', first)).body).toMatchObject({ code: 'not-holder' });
    expect((await giveBack(pair.a, 'again', anew)).status).toBe(204);
  });

  test('two at once are one reservation', async () => {
    await using pair = await startPair();
    const requestId = newRequestId();
    const both = await Promise.all(
      [pair.a, pair.b].map((one) => tryToReserve(one, 'twins', { requestId, waitMs: 5_000 })),
    );
    const granted = both.filter(({ status }) => status === 200).map(({ body }) => body as Reserved);
    expect(granted.length).toBeGreaterThan(0);
    expect(new Set(granted.map(({ holdId }) => holdId)).size).toBe(1);
    const after = await reserved(pair.a, 'twins', { requestId });
    expect(after).toMatchObject({ alreadyHeld: true, holdId: granted[0]?.holdId });
  });

  test('goes on with the place that was kept', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease();
    await pair.a.hold('kept', lease);
    const kept = await tryToReserve(pair.a, 'kept', { waitMs: 50, keepPlace: true });
    expect(kept).toMatchObject({ status: 202, body: { held: false, position: 1 } });
    const { requestId } = kept.body as Reserved;
    const behind = await pair.b.createLease();
    const last = pair.b.acquire('kept', behind, { waitMs: 20_000 });
    await pair.a.untilWaiting('kept', 2);
    const waiting = reserved(pair.b, 'kept', { requestId, waitMs: 20_000, keepPlace: true });
    await pair.a.release('kept', lease);
    const held = await waiting;
    expect(await reservationOf(pair.a, 'kept')).toMatchObject({ holdId: held.holdId });
    await giveBack(pair.a, 'kept', held);
    expect((await last).status).toBe(200);
  });
});

describe('a client that goes away', () => {
  test('while it waits leaves the line', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease();
    await pair.a.hold('left', lease);
    const gone = new AbortController();
    const waiting = tryToReserve(pair.b, 'left', { waitMs: 20_000 }, { signal: gone.signal });
    await pair.a.untilWaiting('left', 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await eventually('it has left', async () => (await pair.a.showLock('left')).waiterCount === 0);
    await pair.a.release('left', lease);
    await throughout('nobody holds', () => isFree(pair.a, 'left'));
  });

  test('in vain is told who holds, and leaves nothing', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    await pair.a.hold('busy', await pair.a.createLease());
    expect((await tryToReserve(pair.b, 'busy', { waitMs: 50 })).body).toMatchObject({ code: 'lock-held' });
    await eventually('its record is gone', async () => {
      const { children } = await witness.control.getChildren(witness.layout.reservationsOf('default'));
      return children.length === 0;
    });
    expect((await witness.line('busy')).length).toBe(1);
  });
});

test('a change of keys: an extension and a repeated request hand out the token sealed anew (C58)', async () => {
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
  const root = freshRoot();
  const start = (keys: string): ReturnType<typeof startReplica> =>
    startReplica({ root, settings: { POSTERN_LEASE_KEYS: keys } });
  await using before = await start(`${one},${two}`);
  await using after = await start(`${two},${one}`);
  await using end = await start(two);
  const requestId = newRequestId();
  const held = await reserved(before, 'kept', { requestId });
  expect((await extendBy(before, 'kept', held, LONG_MS)).body).not.toHaveProperty('reservationToken');
  expect((await extendBy(end, 'kept', held, LONG_MS)).body).toMatchObject({ code: 'invalid-reservation-token' });

  const extended = (await extendBy(after, 'kept', held, LONG_MS)).body as unknown as Reserved;
  expect(extended).toMatchObject({ holdId: held.holdId, reservationToken: expect.stringMatching(/^rt1/) as string });
  const again = await reserved(after, 'kept', { requestId });
  for (const renewed of [extended, again]) {
    const { status, body } = await extendBy(end, 'kept', renewed, LONG_MS);
    expect(status).toBe(200);
    expect(body).toMatchObject({ fencingToken: held.fencingToken });
    expect(body).not.toHaveProperty('reservationToken');
  }
  expect((await extendBy(before, 'kept', held, LONG_MS)).status).toBe(200); // as long as its key is in the ring
  expect((await giveBack(end, 'kept', extended)).status).toBe(204);
});

test('a change of keys: who waits keeps the place that the request was repeated for (C58)', async () => {
  const [one, two] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
  const root = freshRoot();
  const start = (keys: string): ReturnType<typeof startReplica> =>
    startReplica({ root, settings: { POSTERN_LEASE_KEYS: keys } });
  await using before = await start(`${one},${two}`);
  await using after = await start(`${two},${one}`);
  await using end = await start(two);
  const requestId = newRequestId();
  const asked = { requestId, waitMs: 0, keepPlace: true };
  const lease = await end.createLease();
  await end.hold('busy', lease);
  for (const replica of [before, after, end])
    expect(await tryToReserve(replica, 'busy', asked)).toMatchObject({
      status: 202,
      body: { held: false, position: 1 },
    });
  await end.endLease(lease);
  expect(await reserved(end, 'busy', { ...asked, waitMs: 20_000 })).toMatchObject({ requestId });
});

describe('what is refused', () => {
  test('a token that is another’s, for another lock or namespace, or none at all', async () => {
    const scopes = { default: ['read', 'use'], other: ['read', 'use'] } as const;
    await using keys = await makeApiKeys({ ann: { ...scopes }, bob: { ...scopes } } as never);
    await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
    await using ann = keys.as('ann', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const held = await reserved(ann, 'mine');
    const refusal = { status: 403, body: { code: 'invalid-reservation-token', outcome: 'not-applied' } };
    expect(await giveBack(bob, 'mine', held)).toMatchObject(refusal);
    expect(await extendBy(bob, 'mine', held, LONG_MS)).toMatchObject(refusal);
    expect(await giveBack(ann, 'others', held)).toMatchObject(refusal);
    const elsewhere = { body: { reservationToken: held.reservationToken }, headers: { namespace: 'other' } };
    expect(await ann.call('POST', '/v1/locks/mine/reservation/release', elsewhere)).toMatchObject(refusal);
    const cut = { reservationToken: held.reservationToken.slice(0, -4) };
    for (const token of [cut, { reservationToken: 'rt1.AAAA' }, { reservationToken: 'x' }])
      expect(await giveBack(ann, 'mine', token)).toMatchObject(refusal);
    expect(await reservationOf(ann, 'mine')).toMatchObject({ reservation: { owner: 'ann' } });
    expect((await giveBack(ann, 'mine', held)).status).toBe(204);
  });

  test('more than the operator allows: of time, for a principal, in a namespace', async () => {
    await using keys = await makeApiKeys({ ann: { default: ['read', 'use'] }, bob: { default: ['read', 'use'] } });
    await using pair = await startPair({
      settings: {
        POSTERN_AUTH_FILE: keys.file,
        POSTERN_MAX_RESERVATION_MS: '60000',
        POSTERN_MAX_RESERVATIONS: '3',
        POSTERN_MAX_RESERVATIONS_PER_PRINCIPAL: '2',
      },
    });
    await using ann = keys.as('ann', pair.a.url);
    await using bob = keys.as('bob', pair.b.url);
    const forMs = 60_000;
    expect((await tryToReserve(ann, 'one', { forMs: forMs + 1 })).body).toMatchObject({
      code: 'invalid',
      field: 'forMs',
      maxReservationMs: forMs,
    });
    const one = await reserved(ann, 'one', { forMs });
    expect((await extendBy(ann, 'one', one, forMs + 1)).body).toMatchObject({ code: 'invalid', field: 'forMs' });
    await reserved(ann, 'two', { forMs });
    expect((await tryToReserve(ann, 'three', { forMs })).body).toMatchObject({
      code: 'too-many-reservations',
      limit: 'maxReservationsPerPrincipal',
      maxReservationsPerPrincipal: 2,
    });
    await reserved(bob, 'three', { forMs });
    expect((await tryToReserve(bob, 'four', { forMs })).body).toMatchObject({
      code: 'too-many-reservations',
      limit: 'maxReservations',
      maxReservations: 3,
    });
    await giveBack(ann, 'one', one);
    await reserved(bob, 'four', { forMs });
  });

  test('a lock that is taken by priority, and a name too many: neither lease nor record is left', async () => {
    await using pair = await startPair({ settings: { POSTERN_MAX_NAMES: '2' } });
    await using witness = await Witness.start(pair.root);
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pair.a.hold('ranked', lease, { priority: 0 });
    await giveBack(pair.b, 'plain', await reserved(pair.b, 'plain')); // the directories are there
    const { cleanup } = pair.b.gateway.context;
    for (const [name, code] of [
      ['ranked', 'conflict'],
      ['third', 'too-many-names'],
    ] as const) {
      const requestId = newRequestId();
      for (const waitMs of [0, 1_000, 0])
        expect((await tryToReserve(pair.b, name, { requestId, waitMs })).body).toMatchObject({ code });
      await eventually('it has done all it had to', () => cleanup.pending === 0);
      const { children } = await witness.control.getChildren(witness.layout.reservationsOf('default'));
      expect(children).toEqual([]);
      const { items } = (await pair.a.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
      expect(items.map(({ leaseId }) => leaseId)).toEqual([lease.leaseId]);
    }
  });

  test('values that break their rules', async () => {
    await using pair = await startPair();
    const bad = [
      [{ forMs: 999 }, 'forMs'],
      [{ owner: '' }, 'owner'],
      [{ owner: 'x'.repeat(201) }, 'owner'],
      [{ reason: 'x'.repeat(201) }, 'reason'],
      [{ requestId: 'guessable' }, 'requestId'],
    ] as const;
    for (const [body, field] of bad)
      expect((await tryToReserve(pair.a, 'bad', body)).body).toMatchObject({ code: 'invalid', field });
    expect(await isFree(pair.a, 'bad')).toBe(true);
  });
});

test('the list shows what stands, by name, page by page, and only what may be read', async () => {
  await using keys = await makeApiKeys({
    ann: { default: ['read', 'use'] },
    reader: { default: { lock: { scopes: ['read'], names: ['b*'] } } },
  });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using ann = keys.as('ann', pair.a.url);
  await using reader = keys.as('reader', pair.b.url);
  const lease = await ann.createLease();
  await ann.hold('bound', lease);
  const waiting = tryToReserve(ann, 'bound', { waitMs: 20_000 });
  await ann.untilWaiting('bound', 1);
  for (const name of ['beta', 'alpha', 'bravo']) await reserved(ann, name, { reason: name });
  const list = async (query: string): Promise<{ items: { name: string }[]; nextPageToken?: string }> =>
    ann.expect(200, 'GET', `/v1/reservations${query}`);
  const first = await list('?limit=2');
  expect(first.items).toMatchObject([
    { name: 'alpha', owner: 'ann', reason: 'alpha', principal: 'ann' },
    { name: 'beta' },
  ]);
  const rest = await list(`?limit=2&pageToken=${first.nextPageToken}`);
  expect(rest).toMatchObject({ items: [{ name: 'bravo' }] });
  expect(rest.nextPageToken).toBeUndefined();
  expect((await list('?prefix=be')).items).toMatchObject([{ name: 'beta' }]);
  const shown = (await reader.expect(200, 'GET', '/v1/reservations')) as { items: { name: string }[] };
  expect(shown.items.map(({ name }) => name)).toEqual(['beta', 'bravo']);
  expect((await tryToReserve(reader, 'beta')).status).toBe(403);
  await ann.release('bound', lease);
  expect((await waiting).status).toBe(200);
});

test('an administrator revokes a reservation with a grace period: the lock is free, and so is the record', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const held = await reserved(pair.a, 'broken');
  await pair.b.expect(200, 'POST', '/v1/locks/broken/revoke', { body: { graceMs: 0, holdId: held.holdId } });
  await eventually('it is free', () => isFree(pair.a, 'broken'));
  expect(await witness.control.getChildren(witness.layout.reservationsOf('default'))).toMatchObject({ children: [] });
  expect((await extendBy(pair.a, 'broken', held, LONG_MS)).body).toMatchObject({ code: 'not-holder' });
});
