/** Transactions: who votes, who decides, and who is told. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { expireSession, STANDING_WATCHES, startPair } from '../../../support/start-gateway.js';
import { abort, begin, join, leaseFor, show, told, vote } from '../client.js';

describe('a transaction', () => {
  test('is committed by the last vote, and everybody is told at either replica (C29)', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(['a', 'b', 'c'].map((label) => leaseFor(pair.a, { label })));
    const id = await begin(pair.a, ['a', 'b', 'c'], { data: { order: 4711 } });
    for (const [i, name] of ['a', 'b', 'c'].entries())
      expect(told(await join(i === 1 ? pair.b : pair.a, id, leases[i]!, name))).toMatchObject({ state: 'open' });
    expect(told(await vote(pair.a, id, leases[0]!, 'a')).state).toBe('open');
    expect(told(await vote(pair.b, id, leases[1]!, 'b')).state).toBe('open');
    expect((await show(pair.b, id)).votes).toEqual([
      { participant: 'a', vote: 'commit', joined: true },
      { participant: 'b', vote: 'commit', joined: true },
      { participant: 'c', vote: null, joined: true },
    ]);
    expect(told(await vote(pair.b, id, leases[2]!, 'c'))).toMatchObject({
      state: 'committed',
      leaseId: leases[2]!.leaseId,
    });
    for (const replica of [pair.a, pair.b]) {
      const shown = await show(replica, id);
      expect(shown).toMatchObject({ state: 'committed', data: { order: 4711 }, participantCount: 3 });
      expect(shown.votes).toEqual(['a', 'b', 'c'].map((participant) => ({ participant, vote: 'commit' })));
      expect(Date.parse(shown.decidedAt!)).toBeGreaterThanOrEqual(Date.parse(shown.createdAt));
      expect(Date.parse(shown.deadline) - Date.parse(shown.createdAt)).toBe(60_000);
    }
  });

  test('is aborted by one vote to abort, at once, whoever else has joined or voted', async () => {
    await using pair = await startPair();
    const leases = await Promise.all([0, 1, 2].map(() => leaseFor(pair.a)));
    const id = await begin(pair.a, ['a', 'b', 'c']);
    await join(pair.a, id, leases[0]!, 'a');
    expect(told(await vote(pair.b, id, leases[1]!, 'b')).state).toBe('open');
    expect(told(await vote(pair.b, id, leases[2]!, 'c', { vote: 'abort' }))).toMatchObject({
      state: 'aborted',
      reason: 'voted',
      causedBy: ['c'],
    });
    const shown = await show(pair.a, id);
    expect(shown).toMatchObject({ state: 'aborted', reason: 'voted', causedBy: ['c'] });
    expect(shown.votes.map(({ vote }) => vote)).toEqual([null, 'commit', 'abort']);
  });

  test('is aborted at its deadline when a vote is missing, although nobody asks, and says whose', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const id = await begin(pair.a, ['a', 'b'], { deadlineMs: 4_000 });
    await vote(pair.b, id, lease, 'a');
    const { control, layout } = pair.a.gateway.context;
    const path = layout.transaction('default', id);
    await eventually('it is decided', async () => (await control.getData(path)).stat.version === 1);
    const shown = await show(pair.a, id);
    expect(shown).toMatchObject({ state: 'aborted', reason: 'deadline', causedBy: ['b'] });
    expect(Date.parse(shown.decidedAt!)).toBeGreaterThanOrEqual(Date.parse(shown.deadline));
  });

  test('is aborted as soon as one who has joined is lost, and names it; one who never joined is not lost', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b', 'c']);
    await join(pair.a, id, a, 'a');
    await vote(pair.b, id, b, 'b');
    await throughout('it stays open', async () => (await show(pair.a, id)).state === 'open');
    const { control, layout } = pair.a.gateway.context;
    await expireSession(pair.b, b.leaseId);
    await eventually(
      'it is decided',
      async () => (await control.getData(layout.transaction('default', id))).stat.version === 1,
    );
    expect(await show(pair.b, id)).toMatchObject({ state: 'aborted', reason: 'participant-lost', causedBy: ['b'] });
  });

  test('stays as it was decided when the participants go afterwards', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    await vote(pair.a, id, a, 'a');
    expect(told(await vote(pair.b, id, b, 'b')).state).toBe('committed');
    await pair.a.endLease(a);
    await expireSession(pair.b, b.leaseId);
    for (const replica of [pair.a, pair.b]) expect((await show(replica, id)).state).toBe('committed');
  });

  test('is aborted by the coordinator while it is open, with a note, and not after it was committed', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const id = await begin(pair.a, ['a', 'b']);
    await vote(pair.a, id, lease, 'a');
    for (const replica of [pair.b, pair.a])
      expect(told(await abort(replica, id, { reason: 'cancelled' }))).toMatchObject({
        state: 'aborted',
        reason: 'requested',
        note: 'cancelled',
        causedBy: [],
      });
    const other = await begin(pair.a, ['a']);
    await vote(pair.a, other, lease, 'a');
    expect(told(await abort(pair.b, other)).state).toBe('committed');
  });
});

describe('a vote', () => {
  test('may be repeated at any replica, before and after the decision, and gets the decision', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    for (const replica of [pair.a, pair.b, pair.a]) expect(told(await vote(replica, id, a, 'a')).state).toBe('open');
    for (const replica of [pair.a, pair.b, pair.a])
      expect(told(await vote(replica, id, b, 'b')).state).toBe('committed');
    expect(told(await vote(pair.b, id, a, 'a')).state).toBe('committed');
    expect(told(await join(pair.b, id, a, 'a')).state).toBe('committed');
  });

  test('cannot be changed: another one than before is refused and names the first, also after the decision', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    await vote(pair.a, id, a, 'a');
    const changed = await vote(pair.b, id, a, 'a', { vote: 'abort' });
    expect(changed.status).toBe(409);
    expect(changed.body).toMatchObject({ code: 'conflict', vote: 'commit', state: 'open' });
    await vote(pair.b, id, b, 'b', { vote: 'abort' });
    for (const [lease, name, wrong, right] of [
      [a, 'a', 'abort', 'commit'],
      [b, 'b', 'commit', 'abort'],
    ] as const) {
      const late = await vote(pair.a, id, lease, name, { vote: wrong });
      expect(late.status).toBe(409);
      expect(late.body).toMatchObject({ vote: right, state: 'aborted' });
      expect(told(await vote(pair.a, id, lease, name, { vote: right })).state).toBe('aborted');
    }
  });

  test('that comes late, by one who had not voted, is told the decision and changes nothing', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    await vote(pair.a, id, a, 'a', { vote: 'abort' });
    for (const which of ['commit', 'abort'])
      expect(told(await vote(pair.b, id, b, 'b', { vote: which }))).toMatchObject({
        state: 'aborted',
        causedBy: ['a'],
      });
    expect((await show(pair.a, id)).votes[1]).toEqual({ participant: 'b', vote: null });
  });

  test('may wait for the decision, and keeps its lease alive meanwhile (C4)', async () => {
    await using pair = await startPair();
    const ttlMs = 4_000;
    const [a, b] = await Promise.all([leaseFor(pair.a, { ttlMs }), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    const waiting = vote(pair.b, id, a, 'a', { waitMs: 20_000 });
    await eventually('it has voted', async () => (await show(pair.a, id)).votes[0]!.vote === 'commit');
    await throughout('it stays open', async () => (await show(pair.a, id)).state === 'open', { forMs: 1.5 * ttlMs });
    await vote(pair.a, id, b, 'b');
    expect(told(await waiting)).toMatchObject({ state: 'committed', participant: 'a', leaseId: a.leaseId });
    const alone = await begin(pair.a, ['a', 'b'], { deadlineMs: 4_000 });
    expect(told(await vote(pair.b, alone, b, 'b', { waitMs: 50 })).state).toBe('open');
    expect(told(await vote(pair.b, alone, b, 'b', { waitMs: 20_000 }))).toMatchObject({
      state: 'aborted',
      reason: 'deadline',
    });
  });
});

describe('a participant', () => {
  test('is bound to its lease while that lives: another one is refused, and told by whom', async () => {
    await using pair = await startPair();
    const [a, thief] = await Promise.all([leaseFor(pair.a, { label: 'first' }), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    await join(pair.a, id, a, 'a');
    expect(told(await join(pair.b, id, a, 'a')).state).toBe('open');
    for (const refused of [
      await join(pair.b, id, thief, 'a'),
      await vote(pair.b, id, thief, 'a'),
      await vote(pair.b, id, thief, 'a', { vote: 'abort' }),
    ]) {
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'conflict', holder: { leaseId: a.leaseId, label: 'first' } });
    }
    expect((await show(pair.a, id)).state).toBe('open');
    await abort(pair.a, id);
  });

  test('that comes back with a new lease after its vote has aborted the transaction, or is told what was decided before', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const [open, decided] = [await begin(pair.a, ['a', 'b']), await begin(pair.a, ['a', 'b'])];
    for (const id of [open, decided]) await vote(pair.a, id, a, 'a');
    await vote(pair.a, decided, b, 'b');
    await pair.b.endLease(a);
    const again = await leaseFor(pair.b);
    expect(told(await vote(pair.b, open, again, 'a'))).toMatchObject({ state: 'aborted', reason: 'participant-lost' });
    expect(told(await vote(pair.b, decided, again, 'a')).state).toBe('committed');
    expect(told(await vote(pair.b, open, b, 'b')).state).toBe('aborted');
  });

  test('may be one of several of the same lease, which shows them until the decision', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const id = await begin(pair.a, ['a', 'b', 'c']);
    await join(pair.a, id, lease, 'a');
    await vote(pair.b, id, lease, 'b');
    const holds = [
      { kind: 'transaction', name: id, held: true, participant: 'a', hasVoted: false },
      { kind: 'transaction', name: id, held: true, participant: 'b', hasVoted: true },
    ];
    const shown = (await pair.b.showLease(lease)).body as { holds: { participant: string }[] };
    expect(shown.holds.sort((x, y) => x.participant.localeCompare(y.participant))).toEqual(holds);
    const byId = await pair.b.expect(200, 'GET', `/v1/leases/${lease.leaseId}`);
    expect(byId.holds).toHaveLength(2);
    await using events = await EventReader.open(pair.a.url, '/v1/leases/self/events', lease);
    expect((await events.next()).data.holds).toHaveLength(2);
    await vote(pair.a, id, lease, 'a');
    expect(told(await vote(pair.a, id, lease, 'c')).state).toBe('committed');
    expect(((await pair.b.showLease(lease)).body as { holds: unknown[] }).holds).toEqual([]);
    await throughout('the stream reports no loss', () => events.pending.length === 0);
  });
});

describe('a coordinator', () => {
  test('that repeats its request finds the transaction it began, open or decided, at either replica', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const body = { requestId: 'order-4711', data: [1] };
    const id = await begin(pair.a, ['a', 'b'], body);
    expect(await begin(pair.b, ['a', 'b'], body)).toBe(id);
    expect(await begin(pair.b, ['a', 'b'], { data: [1] }, { headers: { 'idempotency-key': 'order-4711' } })).toBe(id);
    await vote(pair.a, id, lease, 'a', { vote: 'abort' });
    const again = await pair.b.call('POST', '/v1/transactions', {
      body: { participants: ['a', 'b'], deadlineMs: 60_000, ...body },
    });
    expect(again.status).toBe(201);
    expect(again.body).toMatchObject({ transactionId: id, state: 'aborted' });
    expect(await begin(pair.a, ['a', 'b'], { ...body, requestId: 'order-4712' })).not.toBe(id);
    expect(await begin(pair.a, ['a', 'b'])).not.toBe(await begin(pair.a, ['a', 'b']));
  });

  test('is told when the requestId stands for another transaction', async () => {
    await using pair = await startPair();
    const id = await begin(pair.a, ['a', 'b'], { requestId: 'one', data: 1 });
    for (const other of [
      { participants: ['a', 'c'], deadlineMs: 60_000, data: 1 },
      { participants: ['a', 'b'], deadlineMs: 60_001, data: 1 },
      { participants: ['a', 'b'], deadlineMs: 60_000, data: 2 },
      { participants: ['a', 'b'], deadlineMs: 60_000 },
    ]) {
      const refused = await pair.b.call('POST', '/v1/transactions', { body: { ...other, requestId: 'one' } });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'conflict', transactionId: id });
    }
  });
});

describe('who waits', () => {
  test('is told of the decision, by one watch and one notification per replica, and not of votes', async () => {
    await using pair = await startPair();
    const [a, b] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    const { headers } = await pair.b.call('GET', `/v1/transactions/${id}`);
    const etag = String(headers['etag']);
    const waiting = [
      ...Array.from({ length: 10 }, () => pair.b.call('GET', `/v1/transactions/${id}?waitMs=20000`)),
      ...Array.from({ length: 10 }, () =>
        pair.b.call('GET', `/v1/transactions/${id}?waitMs=20000`, { headers: { 'if-none-match': etag } }),
      ),
    ];
    await using events = await EventReader.open(pair.b.url, `/v1/transactions/${id}/events`);
    expect((await events.next()).data).toMatchObject({ transactionId: id, state: 'open' });
    await eventually('all wait, at one watch', async () => {
      const inFlight = await pair.b.metric('postern_http_requests_in_flight');
      return inFlight === waiting.length + 1 && (await pair.b.metric('postern_watches')) === STANDING_WATCHES + 1;
    });
    const before = await pair.b.metric('postern_watch_events_total');
    await vote(pair.a, id, a, 'a');
    await throughout('nobody is woken', () => events.pending.length === 0);
    await vote(pair.a, id, b, 'b');
    for (const reply of await Promise.all(waiting)) expect(told(reply).state).toBe('committed');
    const event = await events.next();
    expect(event).toMatchObject({ event: 'state', data: { transactionId: id, state: 'committed' } });
    expect(event.id).not.toBe(etag.slice(1, -1));
    expect((await pair.b.metric('postern_watch_events_total')) - before).toBe(1);
  });

  test('in vain is told so: 304 for the ETag that still holds, the open transaction without one', async () => {
    await using pair = await startPair();
    const id = await begin(pair.a, ['a', 'b']);
    const first = await pair.a.call('GET', `/v1/transactions/${id}`);
    const etag = String(first.headers['etag']);
    const path = `/v1/transactions/${id}?waitMs=30`;
    expect((await pair.b.call('GET', path, { headers: { 'if-none-match': etag } })).status).toBe(304);
    expect((await pair.b.call('GET', path)).body).toMatchObject({
      state: 'open',
      votes: [{ vote: null }, { vote: null }],
    });
    const other = await pair.b.call('GET', path, { headers: { 'if-none-match': '"another"' } });
    expect(other.status).toBe(200);
    await abort(pair.a, id);
    expect((await pair.b.call('GET', path, { headers: { 'if-none-match': etag } })).status).toBe(200);
    expect((await show(pair.b, id, '?consistency=stale')).transactionId).toBe(id);
  });

  test('keeps the lease that it brings alive (C4), and learns when it has ended', async () => {
    await using pair = await startPair();
    const ttlMs = 4_000;
    const [a, b] = await Promise.all([leaseFor(pair.a, { ttlMs }), leaseFor(pair.a)]);
    const id = await begin(pair.a, ['a', 'b']);
    await vote(pair.a, id, a, 'a');
    const waiting = pair.b.call('GET', `/v1/transactions/${id}?waitMs=20000`, { leaseToken: a.leaseToken });
    await throughout('it stays open', async () => (await show(pair.a, id)).state === 'open', { forMs: 1.5 * ttlMs });
    await vote(pair.a, id, b, 'b');
    expect(told(await waiting).state).toBe('committed');
    const next = await begin(pair.a, ['a', 'b']);
    const vain = pair.b.call('GET', `/v1/transactions/${next}?waitMs=20000`, { leaseToken: a.leaseToken });
    await eventually('it waits', () => pair.b.gateway.recipes.transaction.transactions.observers.size === 1);
    await expireSession(pair.a, a.leaseId);
    expect((await vain).status).toBe(410);
  });
});

test('transactions are listed in pages, by the prefix of their id, with their state', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  const ids = await Promise.all(Array.from({ length: 7 }, () => begin(pair.a, ['a', 'b'])));
  await abort(pair.a, ids[0]!);
  await vote(pair.a, ids[1]!, lease, 'a', { vote: 'abort' });
  const listed: { transactionId: string; state: string }[] = [];
  let pageToken: string | undefined;
  do {
    const page = await pair.b.expect(
      200,
      'GET',
      `/v1/transactions?limit=3${pageToken === undefined ? '' : `&pageToken=${pageToken}`}`,
    );
    expect(page.items.length).toBeLessThanOrEqual(3);
    listed.push(...page.items);
    pageToken = page.nextPageToken;
  } while (pageToken !== undefined);
  expect(listed.map(({ transactionId }) => transactionId)).toEqual([...ids].sort());
  expect(
    listed
      .filter(({ state }) => state === 'aborted')
      .map(({ transactionId }) => transactionId)
      .sort(),
  ).toEqual(ids.slice(0, 2).sort());
  for (const length of [1, 2, 3, 32]) {
    const prefix = ids[3]!.slice(0, length);
    const { items } = (await pair.a.expect(200, 'GET', `/v1/transactions?prefix=${prefix}`)) as {
      items: { transactionId: string }[];
    };
    expect(items.map(({ transactionId }) => transactionId)).toEqual(ids.filter((id) => id.startsWith(prefix)).sort());
  }
});
