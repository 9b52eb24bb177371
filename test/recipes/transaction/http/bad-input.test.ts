/** What transactions refuse, before anything is done; and who may do what. */
import { expect, test } from 'vitest';
import { makeApiKeys } from '../../../support/http/api-keys.js';
import { startPair } from '../../../support/start-gateway.js';
import { abort, begin, join, leaseFor, show, told, vote } from '../client.js';

const NOWHERE = 'f'.repeat(32);

test('a transaction with something wrong in it is refused, named, and not begun', async () => {
  await using pair = await startPair();
  const good = { participants: ['a', 'b'], deadlineMs: 60_000 };
  for (const [body, field] of [
    [{ ...good, participants: undefined }, 'participants'],
    [{ ...good, participants: 'a' }, 'participants'],
    [{ ...good, participants: [] }, 'participants'],
    [{ ...good, participants: ['a', 'a'] }, 'participants'],
    [{ ...good, participants: Array.from({ length: 201 }, (_, i) => `p${i}`) }, 'participants'],
    [{ ...good, participants: ['a', 'b/c'] }, 'participants[1]'],
    [{ ...good, participants: ['..'] }, 'participants[0]'],
    [{ ...good, participants: ['x'.repeat(201)] }, 'participants[0]'],
    [{ ...good, participants: [7] }, 'participants[0]'],
    [{ ...good, deadlineMs: undefined }, 'deadlineMs'],
    [{ ...good, deadlineMs: 99 }, 'deadlineMs'],
    [{ ...good, deadlineMs: 604_800_001 }, 'deadlineMs'],
    [{ ...good, deadlineMs: 1_000.5 }, 'deadlineMs'],
    [{ ...good, deadlineMs: '1000' }, 'deadlineMs'],
    [{ ...good, data: 'x'.repeat(16_384) }, 'data'],
    [{ ...good, requestId: 'not a name' }, 'requestId'],
    [{ ...good, more: 1 }, 'more'],
  ] as const) {
    const refused = await pair.a.call('POST', '/v1/transactions', { body });
    expect(refused.status, JSON.stringify(body).slice(0, 80)).toBe(422);
    expect(refused.body, field).toMatchObject({ code: 'invalid', field });
  }
  expect((await pair.b.expect(200, 'GET', '/v1/transactions')).items).toEqual([]);
});

test('the most that is allowed is allowed: 200 participants of 200 characters, and 16 384 bytes of data', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  const names = Array.from({ length: 200 }, (_, i) => String(i).padStart(200, 'p'));
  const data = 'x'.repeat(16_382);
  const id = await begin(pair.a, names, { data });
  await Promise.all(names.slice(1).map((name) => vote(pair.b, id, lease, name)));
  expect(told(await vote(pair.a, id, lease, names[0]!)).state).toBe('committed');
  const shown = await show(pair.b, id);
  expect(shown.data).toBe(data);
  expect(shown.votes.map(({ vote }) => vote)).toEqual(names.map(() => 'commit'));
});

test('a participant with something wrong in its request is refused, named, and takes no part', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  const id = await begin(pair.a, ['a', 'b']);
  for (const [verb, body, field] of [
    ['join', {}, 'participant'],
    ['join', { participant: 'c' }, 'participant'],
    ['join', { participant: 'a/b' }, 'participant'],
    ['join', { participant: 'a', vote: 'commit' }, 'vote'],
    ['join', { participant: 'a', requestId: '?' }, 'requestId'],
    ['vote', { vote: 'commit' }, 'participant'],
    ['vote', { participant: 'c', vote: 'commit' }, 'participant'],
    ['vote', { participant: 'c', vote: 'abort' }, 'participant'],
    ['vote', { participant: 'a' }, 'vote'],
    ['vote', { participant: 'a', vote: 'maybe' }, 'vote'],
    ['vote', { participant: 'a', vote: 'commit', waitMs: -1 }, 'waitMs'],
    ['vote', { participant: 'a', vote: 'commit', waitMs: 1e9 }, 'waitMs'],
    ['vote', { participant: 'a', vote: 'commit', state: 'committed' }, 'state'],
    ['abort', { reason: 7 }, 'reason'],
    ['abort', { reason: 'x'.repeat(201) }, 'reason'],
    ['abort', { participant: 'a' }, 'participant'],
  ] as const) {
    const leaseToken = verb === 'abort' ? {} : { leaseToken: lease.leaseToken };
    const refused = await pair.a.call('POST', `/v1/transactions/${id}/${verb}`, { body, ...leaseToken });
    expect(refused.status, `${verb} ${JSON.stringify(body).slice(0, 80)}`).toBe(422);
    expect(refused.body, field).toMatchObject({ code: 'invalid', field });
  }
  for (const query of ['waitMs=-1', 'waitMs=1000000000', 'waitMs=x', 'consistency=maybe', 'votes=1'])
    expect((await pair.a.call('GET', `/v1/transactions/${id}?${query}`)).status, query).toBe(422);
  for (const query of ['limit=0', 'limit=1001', 'pageToken=!', 'prefix=%2F'])
    expect((await pair.a.call('GET', `/v1/transactions?${query}`)).status, query).toBe(422);
  expect(await show(pair.b, id)).toMatchObject({
    state: 'open',
    votes: [
      { vote: null, joined: false },
      { vote: null, joined: false },
    ],
  });
});

test('a transaction that is none is 404, whatever is asked of it, also under an id that nobody makes', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  for (const id of [NOWHERE, 'x', '...', 'F'.repeat(32), 'join']) {
    const replies = [
      await pair.a.call('GET', `/v1/transactions/${id}`),
      await pair.a.call('GET', `/v1/transactions/${id}?waitMs=20000`),
      await pair.a.call('GET', `/v1/transactions/${id}/events`),
      await join(pair.b, id, lease, 'a'),
      await vote(pair.b, id, lease, 'a'),
      await vote(pair.b, id, lease, 'a', { vote: 'abort' }),
      await abort(pair.b, id),
    ];
    expect(
      replies.map(({ status }) => status),
      id,
    ).toEqual(replies.map(() => 404));
  }
  for (const id of ['..', 'a%2Fb']) expect((await pair.a.call('GET', `/v1/transactions/${id}`)).status).not.toBe(200);
});

test('nobody joins or votes without a lease, with one that has ended, or with one of another namespace', async () => {
  await using pair = await startPair();
  const [lease, ended] = [await leaseFor(pair.a), await leaseFor(pair.a)];
  const foreign = (await pair.a.expect(201, 'POST', '/v1/leases', {
    body: {},
    headers: { namespace: 'other' },
  })) as { leaseToken: string };
  await pair.a.endLease(ended);
  const id = await begin(pair.a, ['a', 'b']);
  for (const [verb, body] of [
    ['join', { participant: 'a' }],
    ['vote', { participant: 'a', vote: 'commit' }],
  ] as const) {
    const path = `/v1/transactions/${id}/${verb}`;
    const without = await pair.b.call('POST', path, { body });
    expect(without.status).toBe(400);
    expect(without.body).toMatchObject({ code: 'lease-token-required' });
    expect((await pair.b.call('POST', path, { body, leaseToken: ended.leaseToken })).status).toBe(410);
    expect((await pair.b.call('POST', path, { body, leaseToken: foreign.leaseToken })).status).toBe(404);
    expect((await pair.b.call('POST', path, { body, leaseToken: 'v1.nonsense' })).status).toBe(403);
  }
  expect((await show(pair.a, id)).votes.every(({ joined }) => joined === false)).toBe(true);
  expect((await pair.a.call('GET', `/v1/transactions/${id}`, { headers: { namespace: 'other' } })).status).toBe(404);
  const waiting = await pair.a.call('GET', `/v1/transactions/${id}?waitMs=20000`, { leaseToken: ended.leaseToken });
  expect(waiting.status).toBe(410);
  expect(told(await vote(pair.a, id, lease, 'a')).state).toBe('open');
  await abort(pair.a, id);
});

test('only the coordinator aborts, and who has the scope admin; reading and taking part have scopes of their own', async () => {
  await using keys = await makeApiKeys({
    coordinator: { default: ['read', 'use'] },
    participant: { default: ['read', 'use'] },
    reader: { default: ['read'] },
    admin: { default: ['admin'] },
  });
  await using pair = await startPair({ settings: { POSTERN_AUTH_FILE: keys.file } });
  await using coordinator = keys.as('coordinator', pair.a.url);
  await using participant = keys.as('participant', pair.b.url);
  await using reader = keys.as('reader', pair.b.url);
  await using admin = keys.as('admin', pair.b.url);
  const body = { requestId: 'same' };
  const first = await begin(coordinator, ['a', 'b'], body);
  expect(await begin(participant, ['a', 'b'], body)).not.toBe(first); // the requestIds of others are none of its own
  const lease = await leaseFor(participant);
  expect(told(await vote(participant, first, lease, 'a')).state).toBe('open');
  for (const who of [participant, reader]) {
    const refused = await abort(who, first);
    expect(refused.status).toBe(403);
    expect(refused.body).toMatchObject({ code: 'forbidden' });
  }
  expect(
    (await reader.call('POST', '/v1/transactions', { body: { participants: ['a'], deadlineMs: 60_000 } })).status,
  ).toBe(403);
  expect(await show(reader, first)).toMatchObject({ state: 'open', principal: 'coordinator' });
  expect(told(await abort(admin, first)).state).toBe('aborted');
  const second = await begin(coordinator, ['a']);
  expect(told(await abort(coordinator, second)).state).toBe('aborted');
});
