/** Groups: who is there, and what each of them shows. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { expireSession, startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { groupOf, join, joinAsForeigner, leaseFor, leave, namesIn } from '../client.js';

describe('a member', () => {
  test('joins through one replica with its value, and is seen through the other', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a, { label: 'worker' });
    const joined = await join(pair.a, 'team', 'w1', lease, { value: { url: 'http://w1' } });
    expect(joined.status).toBe(201);
    expect(joined.body).toMatchObject({
      name: 'team',
      member: 'w1',
      leaseId: lease.leaseId,
      value: { url: 'http://w1' },
    });
    const { memberId, fencingToken, since } = joined.body as Record<string, unknown>;
    expect(await groupOf(pair.b, 'team')).toMatchObject({
      memberCount: 1,
      members: [
        { member: 'w1', memberId, fencingToken, since, label: 'worker', value: { url: 'http://w1' }, external: false },
      ],
    });
  });

  test('joins again and changes its value without becoming another member, through any replica', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = await join(pair.a, 'team', 'w1', lease, { value: 1 });
    const again = await join(pair.b, 'team', 'w1', lease, { value: 2 });
    expect(again.status).toBe(200);
    const { memberId, fencingToken } = first.body as Record<string, unknown>;
    expect(again.body).toMatchObject({ memberId, fencingToken, value: 2 });
    expect((await groupOf(pair.a, 'team')).members).toMatchObject([{ member: 'w1', memberId, value: 2 }]);
    expect((await join(pair.a, 'team', 'w1', lease)).body).toMatchObject({ value: null });
    expect((await groupOf(pair.b, 'team')).members).toMatchObject([{ memberId, value: null }]);
  });

  test('leaves, and leaving again does no harm; a new membership has a new id and a higher token', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const first = (await join(pair.a, 'team', 'w1', lease)).body as { memberId: string; fencingToken: number };
    for (const replica of [pair.b, pair.a]) expect((await leave(replica, 'team', 'w1', lease)).status).toBe(204);
    expect(await groupOf(pair.a, 'team')).toMatchObject({ members: [], memberCount: 0 });
    const second = (await join(pair.b, 'team', 'w1', lease)).body as { memberId: string; fencingToken: number };
    expect(second.memberId).not.toBe(first.memberId);
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken);
  });

  test('of one lease cannot be joined, written or removed by another, which is told whose it is (T10)', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a, { label: 'first' }), leaseFor(pair.b)]);
    await join(pair.a, 'team', 'w1', one, { value: 'mine' });
    for (const replica of [pair.a, pair.b]) {
      const refused = await join(replica, 'team', 'w1', two, { value: 'stolen' });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({
        code: 'conflict',
        member: 'w1',
        holder: { leaseId: one.leaseId, label: 'first' },
      });
      const kept = await leave(replica, 'team', 'w1', two);
      expect(kept.status).toBe(409);
      expect(kept.body).toMatchObject({ code: 'not-holder' });
    }
    expect((await groupOf(pair.b, 'team')).members).toMatchObject([{ leaseId: one.leaseId, value: 'mine' }]);
  });

  test('whose process was restarted gets its name back when the old lease has ended, not before (T10)', async () => {
    await using pair = await startPair();
    const [before, after] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await join(pair.a, 'team', 'w1', before);
    expect((await join(pair.b, 'team', 'w1', after)).status).toBe(409);
    await expireSession(pair.a, before.leaseId);
    expect((await join(pair.b, 'team', 'w1', after)).status).toBe(201);
    expect((await join(pair.a, 'team', 'w1', before)).status).toBe(410);
    expect((await leave(pair.a, 'team', 'w1', before)).status).toBe(410);
    expect((await groupOf(pair.a, 'team')).members).toMatchObject([{ leaseId: after.leaseId }]);
  });

  test('that writes while it leaves and another lease joins never writes over the other one (T10, C10)', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.b)]);
    for (let round = 0; round < 40; round += 1) {
      await join(pair.a, 'team', 'w1', one, { value: 'one' });
      const replies = await Promise.all([
        join(pair.a, 'team', 'w1', one, { value: 'one' }),
        leave(round % 2 === 0 ? pair.a : pair.b, 'team', 'w1', one),
        ...Array.from({ length: 3 }, () => join(pair.b, 'team', 'w1', two, { value: 'two' })),
      ]);
      for (const { status } of replies) expect([200, 201, 204, 409]).toContain(status);
      for (const { leaseId, value } of (await groupOf(pair.a, 'team')).members)
        expect(value).toBe(leaseId === one.leaseId ? 'one' : 'two');
      await Promise.all([leave(pair.a, 'team', 'w1', one), leave(pair.b, 'team', 'w1', two)]);
    }
  });

  test('that joined without Postern is shown with its payload, and left alone', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const { path } = await joinAsForeigner(pair.a, 'team', 'curator', 'host:1234');
    await joinAsForeigner(pair.a, 'team', 'json', '{"leaseId":"x"}');
    await joinAsForeigner(pair.a, 'team', 'empty', '');
    await join(pair.b, 'team', 'w1', lease);
    expect((await groupOf(pair.b, 'team')).members).toMatchObject([
      { member: 'curator', leaseId: null, value: 'host:1234', external: true },
      { member: 'empty', value: '', external: true },
      { member: 'json', value: '{"leaseId":"x"}', external: true },
      { member: 'w1', external: false },
    ]);
    const refused = await join(pair.a, 'team', 'curator', lease);
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ holder: { external: true } });
    expect((await leave(pair.a, 'team', 'curator', lease)).status).toBe(409);
    expect((await pair.a.gateway.context.control.getData(path)).data.toString()).toBe('host:1234');
  });

  test('may be called like anything that a name may be, also like a word of the path', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const names = ['members', 'shares', 'events', 'ready', '~', 'a'.repeat(200)];
    for (const name of names) expect((await join(pair.a, 'members', name, lease)).status).toBe(201);
    expect(await namesIn(pair.b, 'members')).toEqual([...names].sort());
  });
});

describe('a lease that ends', () => {
  test('takes its members out of the list, the long poll and the event stream', async () => {
    await using pair = await startPair();
    const [stays, ends] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await join(pair.a, 'team', 'stays', stays);
    await join(pair.a, 'team', 'ends', ends);
    const { headers } = await pair.b.call('GET', '/v1/groups/team');
    await using events = await EventReader.open(pair.b.url, '/v1/groups/team/events');
    expect(await events.next()).toMatchObject({ event: 'state', data: { memberCount: 2 } });
    const polling = pair.b.call('GET', '/v1/groups/team?waitMs=20000', {
      headers: { 'if-none-match': String(headers['etag']) },
    });
    await throughout('nobody is told anything', () => events.pending.length === 0);
    await expireSession(pair.a, ends.leaseId);
    const polled = await polling;
    expect(polled.status).toBe(200);
    expect(polled.body).toMatchObject({ memberCount: 1, members: [{ member: 'stays' }] });
    const told = await events.next();
    expect(told.data).toEqual(polled.body);
    expect(`"${told.id}"`).toBe(polled.headers['etag']);
    expect(await namesIn(pair.a, 'team')).toEqual(['stays']);
  });

  test('is shown with its memberships while it lives, to itself and to an administrator', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const { memberId, fencingToken } = (await join(pair.a, 'team', 'w1', lease)).body as Record<string, unknown>;
    const held = { kind: 'group', name: 'team', member: 'w1', held: true, holdId: memberId, fencingToken };
    expect((await pair.b.showLease(lease)).body).toMatchObject({ holds: [held] });
    expect((await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).body).toMatchObject({ holds: [held] });
  });

  test('is told of a membership that is gone although it lives, and not of one that it left', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a, { ttlMs: scaled(1_500) });
    const { memberId } = (await join(pair.a, 'team', 'w1', lease)).body as { memberId: string };
    await using events = await EventReader.open(pair.a.url, '/v1/leases/self/events', { leaseToken: lease.leaseToken });
    expect(await events.next()).toMatchObject({ data: { holds: [{ holdId: memberId }] } });
    await join(pair.a, 'team', 'w2', lease);
    expect(await events.next()).toMatchObject({ event: 'granted', data: { kind: 'group', member: 'w2' } });
    await leave(pair.a, 'team', 'w2', lease);
    const { control, layout } = pair.a.gateway.context;
    await control.delete(`${layout.group('default', 'team')}/w1`);
    expect(await events.next()).toMatchObject({
      event: 'lost',
      data: { kind: 'group', name: 'team', member: 'w1', holdId: memberId, reason: 'missing' },
    });
    expect(events.pending).toEqual([]);
  });
});

describe('a long poll', () => {
  test('answers 304 while nothing changes, and the ETag is the same at every replica', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await join(pair.a, 'team', 'w1', lease, { value: 1 });
    const [a, b] = await Promise.all([pair.a, pair.b].map((replica) => replica.call('GET', '/v1/groups/team')));
    expect(a?.headers['etag']).toBe(b?.headers['etag']);
    const headers = { 'if-none-match': String(a?.headers['etag']) };
    expect((await pair.b.call('GET', '/v1/groups/team', { headers })).status).toBe(304);
    const waited = await pair.b.call('GET', '/v1/groups/team?waitMs=100', { headers });
    expect(waited.status).toBe(304);
    expect(waited.headers['etag']).toBe(headers['if-none-match']);
  });

  test.each(['join', 'value', 'leave'] as const)('is answered when a member changes the group: %s', async (what) => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    await join(pair.a, 'team', 'w1', lease, { value: 1 });
    const { headers } = await pair.a.call('GET', '/v1/groups/team');
    const polling = pair.b.call('GET', '/v1/groups/team?waitMs=20000', {
      headers: { 'if-none-match': String(headers['etag']) },
    });
    await eventually('the group is observed', () => pair.b.gateway.observed() === 1);
    if (what === 'join') await join(pair.a, 'team', 'w2', lease);
    else if (what === 'value') await join(pair.a, 'team', 'w1', lease, { value: 2 });
    else await leave(pair.a, 'team', 'w1', lease);
    const polled = await polling;
    expect(polled.status).toBe(200);
    expect(polled.body).toEqual(await groupOf(pair.a, 'team'));
  });

  test('waits for the first member of a group that never was', async () => {
    await using pair = await startPair();
    const { headers } = await pair.b.call('GET', '/v1/groups/new');
    const polling = pair.b.call('GET', '/v1/groups/new?waitMs=20000', {
      headers: { 'if-none-match': String(headers['etag']) },
    });
    await eventually('the group is observed', () => pair.b.gateway.observed() === 1);
    await join(pair.a, 'new', 'w1', await leaseFor(pair.a));
    expect((await polling).body).toMatchObject({ memberCount: 1 });
  });

  test('is told draining by a replica that goes, and goes on at another one', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const { headers } = await pair.b.call('GET', '/v1/groups/team');
    const wait = { headers: { 'if-none-match': String(headers['etag']) } };
    const polling = pair.b.call('GET', '/v1/groups/team?waitMs=20000', wait);
    await eventually('the group is observed', () => pair.b.gateway.observed() === 1);
    await pair.b.gateway.stop();
    const drained = await polling;
    expect(drained.status).toBe(503);
    expect(drained.body).toMatchObject({ code: 'draining' });
    await join(pair.a, 'team', 'w1', lease);
    expect((await pair.a.call('GET', '/v1/groups/team?waitMs=20000', wait)).status).toBe(200);
  });
});

describe('lists', () => {
  test('of members with long values end after about a MiB of them, and go on with the next page', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const members = Array.from({ length: 300 }, (_, i) => `w${String(i).padStart(3, '0')}`);
    const value = 'v'.repeat(4_000);
    await Promise.all(members.map((member) => join(pair.a, 'long', member, lease, { value })));
    const path = '/v1/groups/long/members?limit=1000';
    const first = await pair.b.expect(200, 'GET', path);
    expect(JSON.stringify(first).length).toBeLessThan(1.2 * 1024 * 1024);
    const rest = await pair.b.expect(200, 'GET', `${path}&pageToken=${first.nextPageToken}`);
    expect([...first.items, ...rest.items].map(({ member }: { member: string }) => member)).toEqual(members);
    expect(rest.nextPageToken).toBeUndefined();
  });

  test('of groups and of members are paged in the order of the names, with a prefix', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const members = Array.from({ length: 130 }, (_, i) => `w${String(i).padStart(3, '0')}`);
    await Promise.all(members.map((member) => join(pair.a, 'big', member, lease)));
    await join(pair.a, 'bigger', 'x', lease);
    await join(pair.a, 'other', 'x', lease);
    await join(pair.a, 'left', 'x', lease);
    await leave(pair.a, 'left', 'x', lease);
    const shown = await groupOf(pair.b, 'big');
    expect(shown.memberCount).toBe(130);
    expect(shown.members.map(({ member }) => member)).toEqual(members.slice(0, 100));
    const first = await pair.b.expect(200, 'GET', '/v1/groups/big/members?limit=70');
    const rest = await pair.b.expect(200, 'GET', `/v1/groups/big/members?limit=70&pageToken=${first.nextPageToken}`);
    expect([...first.items, ...rest.items].map(({ member }: { member: string }) => member)).toEqual(members);
    expect(rest.nextPageToken).toBeUndefined();
    expect((await pair.b.expect(200, 'GET', '/v1/groups/big/members?prefix=w01')).items).toHaveLength(10);
    expect((await pair.b.expect(200, 'GET', '/v1/groups')).items).toEqual([
      { name: 'big', memberCount: 130 },
      { name: 'bigger', memberCount: 1 },
      { name: 'other', memberCount: 1 },
    ]);
    const page = await pair.b.expect(200, 'GET', '/v1/groups?prefix=big&limit=1');
    expect(page.items).toEqual([{ name: 'big', memberCount: 130 }]);
    const next = await pair.b.expect(200, 'GET', `/v1/groups?prefix=big&limit=1&pageToken=${page.nextPageToken}`);
    expect(next.items).toEqual([{ name: 'bigger', memberCount: 1 }]);
    expect(next.nextPageToken).toBeUndefined();
  });

  test('do not show the groups of another namespace', async () => {
    await using pair = await startPair();
    const headers = { namespace: 'other' };
    const lease = await pair.a.expect(201, 'POST', '/v1/leases', { body: { ttlMs: 20_000 }, headers });
    await join(pair.a, 'team', 'w1', lease as { leaseToken: string });
    expect((await pair.b.expect(200, 'GET', '/v1/groups')).items).toEqual([]);
    expect((await groupOf(pair.b, 'team')).memberCount).toBe(0);
    expect(await pair.b.expect(200, 'GET', '/v1/groups/team', { headers })).toMatchObject({ memberCount: 1 });
  });
});
