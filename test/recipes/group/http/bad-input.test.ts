/** What groups refuse, before anything is done. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { groupOf, join, leaseFor, leave } from '../client.js';

test('joining with something wrong in it is refused, named, and makes no member', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  for (const [body, field] of [
    [{ value: 'x'.repeat(4_096) }, 'value'],
    [{ data: 1 }, 'data'],
    [{ value: 1, waitMs: 1 }, 'waitMs'],
    [[], 'body'],
  ] as const) {
    const refused = await join(pair.a, 'team', 'w1', lease, body as never);
    expect(refused.status, field).toBe(422);
    expect(refused.body, field).toMatchObject({ code: 'invalid', field });
  }
  for (const [group, member, field] of [
    ['team', 'a%2Fb', 'member'],
    ['a%2Fb', 'w1', 'name'],
    ['team', 'a'.repeat(201), 'member'],
    ['a'.repeat(201), 'w1', 'name'],
    ['team', 'a%20b', 'member'],
    ['te%C3%A4m', 'w1', 'name'],
  ] as const)
    for (const refused of [await join(pair.a, group, member, lease), await leave(pair.a, group, member, lease)]) {
      expect(refused.status, member).toBe(422);
      expect(refused.body, member).toMatchObject({ code: 'invalid', field });
    }
  expect(
    (await pair.a.call('PUT', '/v1/groups/team/members/w1', { body: '{', leaseToken: lease.leaseToken })).status,
  ).toBe(400);
  expect(await groupOf(pair.b, 'team')).toMatchObject({ members: [], memberCount: 0 });
  const { control, layout } = pair.a.gateway.context;
  expect(await control.exists(layout.group('default', 'team'))).toBeUndefined();
});

test('nobody joins or leaves without a lease, nor with one that does not open or has ended, which leaves no directory (C13)', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  for (const method of ['PUT', 'DELETE'] as const) {
    const without = await pair.b.call(method, '/v1/groups/team/members/w1');
    expect(without.status).toBe(400);
    expect(without.body).toMatchObject({ code: 'lease-token-required' });
    const wrong = await pair.b.call(method, '/v1/groups/team/members/w1', { leaseToken: 'nonsense' });
    expect(wrong.status).toBe(403);
  }
  await pair.a.endLease(lease);
  expect((await join(pair.b, 'team', 'w1', lease)).status).toBe(410);
  expect((await leave(pair.b, 'team', 'w1', lease)).status).toBe(410);
  const { control, layout } = pair.a.gateway.context;
  expect(await control.exists(layout.group('default', 'team'))).toBeUndefined();
});

test('what is asked of a group is refused, named, when something is wrong in it', async () => {
  await using pair = await startPair();
  for (const [path, field] of [
    ['/v1/groups/team/shares', 'of'],
    ['/v1/groups/team/shares?of=0', 'of'],
    ['/v1/groups/team/shares?of=1001', 'of'],
    ['/v1/groups/team/shares?of=1.5', 'of'],
    ['/v1/groups/team/shares?of=x', 'of'],
    ['/v1/groups/team/shares?of=2&waitMs=-1', 'waitMs'],
    ['/v1/groups/team/shares?of=2&waitMs=55001', 'waitMs'],
    ['/v1/groups/team/shares?of=2&more=1', 'more'],
    ['/v1/groups/team?waitMs=55001', 'waitMs'],
    ['/v1/groups/team?waitMs=x', 'waitMs'],
    ['/v1/groups/team?consistency=old', 'consistency'],
    ['/v1/groups/team?limit=1', 'limit'],
    ['/v1/groups/team/events?maxMs=0', 'maxMs'],
    ['/v1/groups/team/members?limit=0', 'limit'],
    ['/v1/groups/team/members?limit=1001', 'limit'],
    ['/v1/groups/team/members?prefix=%2F', 'prefix'],
    ['/v1/groups?pageToken=nonsense', 'pageToken'],
    ['/v1/groups/a%20b', 'name'],
  ] as const) {
    const refused = await pair.a.call('GET', path);
    expect(refused.status, path).toBe(422);
    expect(refused.body, path).toMatchObject({ code: 'invalid', field });
  }
  for (const [method, path] of [
    ['POST', '/v1/groups/team'],
    ['GET', '/v1/groups/team/members/w1'],
    ['DELETE', '/v1/groups'],
  ] as const)
    expect((await pair.a.call(method, path)).status).toBe(405);
});
