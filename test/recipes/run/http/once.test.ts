/** Runs: of each occurrence somebody does the work once. */
import { describe, expect, test } from 'vitest';
import { EventReader } from '../../../support/http/event-stream.js';
import { eventually } from '../../../support/eventually.js';
import { expireSession, startPair, startReplica } from '../../../support/start-gateway.js';
import { call, finish, leaseFor, NAME, show, start, started } from '../client.js';

describe('an occurrence', () => {
  test('is started for one of those that ask, and after it is done for nobody', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 6 }, (_, i) => leaseFor(i % 2 === 0 ? pair.a : pair.b)));
    const told = await Promise.all(leases.map((lease, i) => start(i % 2 === 0 ? pair.b : pair.a, lease, 'monday')));
    const winner = told.findIndex((one) => one.started);
    expect(told.filter((one) => one.started)).toHaveLength(1);
    for (const one of told) {
      if (!one.started) expect(one).toMatchObject({ state: 'running', by: { leaseId: leases[winner]!.leaseId } });
    }
    const done = await finish(pair.a, leases[winner]!, 'monday', 'done', { note: 'ten lines' });
    expect(done.body).toMatchObject({ occurrence: 'monday', state: 'done', attempt: 1, note: 'ten lines' });
    for (const lease of leases)
      expect(await start(pair.b, lease, 'monday')).toMatchObject({ started: false, state: 'done', attempt: 1 });
    expect((await start(pair.b, leases[0]!, 'tuesday')).started).toBe(true);
  });

  test('stays done when the lease that did it has ended', async () => {
    await using pair = await startPair();
    const [first, next] = [await leaseFor(pair.a), await leaseFor(pair.a)];
    await started(pair.a, first, 'monday');
    await finish(pair.a, first, 'monday');
    await pair.b.endLease(first);
    expect(await start(pair.b, next, 'monday')).toMatchObject({ started: false, state: 'done' });
  });

  test('whose lease ended goes to the next who asks, with a higher token, until there were as many as may be', async () => {
    await using pair = await startPair();
    let token = 0;
    for (const attempt of [1, 2, 3]) {
      const lease = await leaseFor(pair.a);
      const one = await started(pair.a, lease, 'monday', { maxAttempts: attempt === 1 ? 3 : 1 });
      expect(one).toMatchObject({ attempt, maxAttempts: 3 });
      expect(one.fencingToken).toBeGreaterThan(token);
      token = one.fencingToken;
      const [shown] = await show(pair.b);
      expect(shown).toMatchObject({ state: 'running', attempt });
      await expireSession(pair.a, lease.leaseId);
      await pair.b.untilEnded(lease);
      expect((await show(pair.b))[0]).toMatchObject({ state: attempt < 3 ? 'open' : 'failed', attempt });
    }
    const late = await leaseFor(pair.b);
    expect(await start(pair.b, late, 'monday')).toMatchObject({ started: false, state: 'failed', attempt: 3 });
  });

  test('that was finished as failed is tried again, by the same lease too, and then is failed for good', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = await started(pair.a, lease, 'monday', { maxAttempts: 2 });
    expect((await finish(pair.b, lease, 'monday', 'failed', { note: 'exit code 3' })).body).toMatchObject({
      state: 'open',
      note: 'exit code 3',
    });
    const second = await started(pair.b, lease, 'monday');
    expect(second.attempt).toBe(2);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
    expect((await finish(pair.a, lease, 'monday', 'failed')).body).toMatchObject({ state: 'failed' });
    expect(await start(pair.a, lease, 'monday')).toMatchObject({ started: false, state: 'failed' });
  });

  test('is the same attempt for the same lease and requestId, and another starter for another requestId', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = await started(pair.a, lease, 'monday', { requestId: 'r1' });
    expect(await started(pair.b, lease, 'monday', { requestId: 'r1' })).toMatchObject({
      attempt: 1,
      fencingToken: first.fencingToken,
    });
    expect(await start(pair.b, lease, 'monday', { requestId: 'r2' })).toMatchObject({
      started: false,
      state: 'running',
    });
  });

  test('is refused to a lease that has ended', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await expireSession(pair.a, lease.leaseId);
    const refused = await call(pair.b, 'start', lease, { occurrence: 'monday' });
    expect(refused.status).toBe(410);
    expect(await show(pair.b)).toEqual([]);
  });
});

describe('a finish', () => {
  test('is idempotent for the same outcome, also when its lease has ended, and refused for the other one', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await started(pair.a, lease, 'monday');
    const first = await finish(pair.a, lease, 'monday', 'done', { note: 'once' });
    expect((await finish(pair.b, lease, 'monday', 'done', { note: 'twice' })).body).toEqual(first.body);
    expect((await finish(pair.b, lease, 'monday', 'failed')).body).toMatchObject({ code: 'not-holder' });
    await expireSession(pair.a, lease.leaseId);
    expect((await finish(pair.b, lease, 'monday')).status).toBe(200);
  });

  test('as failed is known also when somebody else has the next attempt, and does not end that', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    await started(pair.a, a, 'monday');
    await finish(pair.a, a, 'monday', 'failed');
    await started(pair.b, b, 'monday');
    expect(await finish(pair.b, a, 'monday', 'failed')).toMatchObject({
      status: 200,
      body: { state: 'running', attempt: 2 },
    });
    expect((await finish(pair.a, a, 'monday', 'done')).body).toMatchObject({ code: 'not-holder', attempt: 2 });
    expect((await show(pair.a))[0]).toMatchObject({ state: 'running', attempt: 2 });
  });

  test('of an earlier attempt, that comes late, does not end a later one of the same lease', async () => {
    await using replica = await startReplica();
    const lease = await leaseFor(replica);
    const { fencingToken } = await started(replica, lease, 'monday');
    await finish(replica, lease, 'monday', 'failed');
    await started(replica, lease, 'monday');
    expect((await finish(replica, lease, 'monday', 'failed', { fencingToken })).status).toBe(200);
    expect((await finish(replica, lease, 'monday', 'done', { fencingToken })).status).toBe(409);
    expect((await show(replica))[0]).toMatchObject({ state: 'running', attempt: 2 });
  });

  test('is refused to whoever has no attempt, or had one that was lost', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    expect((await finish(pair.a, a, 'monday')).body).toMatchObject({ code: 'not-holder', occurrence: 'monday' });
    const { fencingToken } = await started(pair.a, a, 'monday');
    expect((await finish(pair.b, b, 'monday', 'done', { fencingToken })).body).toMatchObject({
      code: 'not-holder',
      attempt: 1,
    });
    await expireSession(pair.a, a.leaseId);
    expect((await finish(pair.b, a, 'monday')).status).toBe(410);
    await started(pair.b, b, 'monday');
    expect((await finish(pair.a, a, 'monday')).body).toMatchObject({ code: 'not-holder', attempt: 2 });
    expect((await show(pair.a))[0]).toMatchObject({ state: 'running', attempt: 2 });
  });
});

describe('a start that waits', () => {
  test('learns that the occurrence is done, or takes over where the lease of the attempt has ended', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    for (const ends of ['done', 'lost', 'failed'] as const) {
      await started(pair.a, a, ends);
      const waiting = start(pair.b, b, ends, { waitMs: 20_000 });
      await eventually('it waits', () => pair.b.gateway.observed() > 0);
      if (ends === 'lost') await expireSession(pair.a, a.leaseId);
      else await finish(pair.a, a, ends, ends);
      const expected = ends === 'done' ? { started: false, state: 'done' } : { started: true, attempt: 2 };
      expect(await waiting).toMatchObject(expected);
      if (ends === 'lost') Object.assign(a, await leaseFor(pair.a));
    }
  });

  test('ends in time where the attempt goes on', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    await started(pair.a, a, 'monday');
    expect(await start(pair.b, b, 'monday', { waitMs: 100 })).toMatchObject({ started: false, state: 'running' });
  });
});

describe('a start that says within which time of others it comes', () => {
  const within = { withinMs: 600_000 };

  test('is for the same occurrence as theirs, of those that come at once and of those that come later', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 6 }, (_, i) => leaseFor(i % 2 === 0 ? pair.a : pair.b)));
    const told = await Promise.all(leases.map((lease, i) => start(i % 2 === 0 ? pair.b : pair.a, lease, within)));
    const winner = told.findIndex((one) => one.started);
    expect(told.filter((one) => one.started)).toHaveLength(1);
    const { occurrence } = told[0]!;
    expect(new Set(told.map((one) => one.occurrence))).toEqual(new Set([occurrence]));
    expect(Math.abs(Date.parse(occurrence) - Date.now())).toBeLessThan(600_000);
    await finish(pair.a, leases[winner]!, occurrence);
    expect(await start(pair.b, leases[0]!, within)).toMatchObject({ started: false, state: 'done', occurrence });
    expect(await show(pair.b)).toHaveLength(1);
  });

  test('has the next attempt where that failed, and the same one where it is repeated', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    const first = await started(pair.a, a, within);
    expect(await started(pair.b, a, within)).toMatchObject({ attempt: 1, fencingToken: first.fencingToken });
    await finish(pair.a, a, first.occurrence, 'failed');
    const { occurrence } = first;
    expect(await started(pair.b, b, within)).toMatchObject({ attempt: 2, occurrence });
    expect(await started(pair.a, b, { withinMs: 1 })).toMatchObject({ attempt: 2, occurrence });
  });

  test('begins a new occurrence later than that, but not while the last one runs', async () => {
    await using pair = await startPair();
    const [a, b] = [await leaseFor(pair.a), await leaseFor(pair.b)];
    const soon = { withinMs: 1 };
    const { occurrence } = await started(pair.a, a, soon);
    expect(await start(pair.b, b, soon)).toMatchObject({ started: false, state: 'running', occurrence });
    const waiting = start(pair.b, b, soon, { waitMs: 20_000 });
    await eventually('it waits', () => pair.b.gateway.observed() > 0);
    await finish(pair.a, a, occurrence);
    expect(await waiting).toMatchObject({ started: false, state: 'done', occurrence });
    const next = await started(pair.b, b, soon);
    expect(next.occurrence > occurrence).toBe(true);
    expect((await show(pair.a)).map((one) => one.occurrence)).toEqual([next.occurrence, occurrence]);
  });
});

describe('what is remembered', () => {
  test('are the last occurrences; those that run are not forgotten, and others make room', async () => {
    await using pair = await startPair({ settings: { POSTERN_RUN_OCCURRENCES: '3' } });
    const lease = await leaseFor(pair.a);
    await started(pair.a, lease, 'o1');
    for (const occurrence of ['o2', 'o3', 'o4', 'o5']) {
      await started(pair.b, lease, occurrence);
      await finish(pair.b, lease, occurrence);
    }
    expect((await show(pair.a)).map(({ occurrence }) => occurrence)).toEqual(['o5', 'o4', 'o1']);
    expect(await start(pair.a, lease, 'o4')).toMatchObject({ started: false, state: 'done' });
    expect(await start(pair.a, lease, 'o2')).toMatchObject({ started: true, attempt: 1 });
    await started(pair.a, lease, 'o6');
    const refused = await call(pair.b, 'start', lease, { occurrence: 'o7' });
    expect(refused.body).toMatchObject({ code: 'conflict', maxOccurrences: 3, retryable: true });
  });

  test('can be forgotten, except while it runs, and tokens go on growing', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const before = await started(pair.a, lease, 'monday');
    const forget = (occurrence: string) => pair.b.call('POST', `/v1/runs/${NAME}/forget`, { body: { occurrence } });
    expect((await forget('monday')).body).toMatchObject({ code: 'conflict', holder: { leaseId: lease.leaseId } });
    await finish(pair.a, lease, 'monday');
    expect((await forget('monday')).status).toBe(204);
    expect((await forget('monday')).body).toMatchObject({ code: 'not-found' });
    const again = await started(pair.a, lease, 'monday');
    expect(again.attempt).toBe(1);
    expect(again.fencingToken).toBeGreaterThan(before.fencingToken);
  });

  test('is listed by name, and can be watched: an attempt that ends with its lease is news', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = await pair.b.call('GET', `/v1/runs/${NAME}`);
    expect(first.body).toEqual({ name: NAME, occurrences: [] });
    const poll = (etag: unknown) =>
      pair.b.call('GET', `/v1/runs/${NAME}?waitMs=20000`, { headers: { 'if-none-match': String(etag) } });
    const begins = poll(first.headers['etag']);
    await started(pair.a, lease, 'monday');
    const begun = await begins;
    expect(begun.body).toMatchObject({ occurrences: [{ occurrence: 'monday', state: 'running' }] });
    await using events = await EventReader.open(pair.a.url, `/v1/runs/${NAME}/events`);
    expect((await events.next()).data).toMatchObject(begun.body as object);
    const ends = poll(begun.headers['etag']);
    await expireSession(pair.a, lease.leaseId);
    const lost = { occurrences: [{ occurrence: 'monday', state: 'open' }] };
    expect((await ends).body).toMatchObject(lost);
    expect((await events.next()).data).toMatchObject(lost);
    expect((await pair.b.expect(200, 'GET', '/v1/runs')).items).toEqual([{ name: NAME }]);
  });
});

test('bad input is refused with the field, the value and the rule', async () => {
  await using replica = await startReplica();
  const lease = await leaseFor(replica);
  const cases: [body: Record<string, unknown>, field: string][] = [
    [{}, 'occurrence'],
    [{ occurrence: 'a b' }, 'occurrence'],
    [{ occurrence: 'x'.repeat(129) }, 'occurrence'],
    [{ occurrence: 'o', maxAttempts: 0 }, 'maxAttempts'],
    [{ occurrence: 'o', maxAttempts: 11 }, 'maxAttempts'],
    [{ occurrence: 'o', waitMs: 1e9 }, 'waitMs'],
    [{ withinMs: 0 }, 'withinMs'],
    [{ withinMs: 2_592_000_001 }, 'withinMs'],
    [{ occurrence: 'o', withinMs: 1_000 }, 'withinMs'],
  ];
  for (const [body, field] of cases)
    expect(await call(replica, 'start', lease, body)).toMatchObject({ status: 422, body: { code: 'invalid', field } });
  const finishing = { occurrence: 'o', outcome: 'done', fencingToken: 1 };
  for (const [body, field] of [
    [{ ...finishing, outcome: 'open' }, 'outcome'],
    [{ ...finishing, note: 'x'.repeat(201) }, 'note'],
    [{ ...finishing, fencingToken: undefined }, 'fencingToken'],
  ] as const)
    expect(await call(replica, 'finish', lease, body)).toMatchObject({ status: 422, body: { field } });
  const without = await replica.call('POST', `/v1/runs/${NAME}/start`, { body: { occurrence: 'o' } });
  expect(without.body).toMatchObject({ code: 'lease-token-required' });
});
