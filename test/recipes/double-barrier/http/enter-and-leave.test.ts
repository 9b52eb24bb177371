/** Double barriers: so many begin together, and end together. */
import { describe, expect, test } from 'vitest';
import { READY } from '../../../../src/recipes/double-barrier/round.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { expireSession, startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { enter, leaseFor, leasesFor, leave, show, untilMembers } from '../client.js';

const NAME = 'stage';

describe('entering', () => {
  test('waits until all are there, at whichever replica, and each is told', async () => {
    await using pair = await startPair();
    const [one, two, three] = await leasesFor(pair.a, 3);
    let told = 0;
    const first = enter(pair.a, NAME, one!, { size: 3, waitMs: 20_000 }).finally(() => (told += 1));
    const second = enter(pair.b, NAME, two!, { size: 3, waitMs: 20_000 }).finally(() => (told += 1));
    await untilMembers(pair.a, NAME, 2);
    await throughout('nobody has entered', () => told === 0);
    expect(await show(pair.b, NAME)).toMatchObject({
      entered: false,
      size: 3,
      members: [{ entered: false }, { entered: false }],
    });
    const third = await enter(pair.b, NAME, three!, { size: 3, waitMs: 20_000 });
    expect(third.status).toBe(200);
    expect(third.body).toMatchObject({ name: NAME, entered: true, size: 3, leaseId: three!.leaseId });
    for (const reply of [await first, await second]) expect(reply.body).toMatchObject({ entered: true });
    expect(await show(pair.a, NAME)).toMatchObject({ entered: true, memberCount: 3 });
    expect((await show(pair.a, NAME)).members.every(({ entered }) => entered)).toBe(true);
  });

  test('of one alone is done at once', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    expect((await enter(pair.a, NAME, lease, { size: 1 })).status).toBe(200);
    const other = await leave(pair.a, NAME, lease, { requestId: 'another' });
    expect(other).toMatchObject({ status: 200, body: { left: true, gone: true } });
    expect(await show(pair.b, NAME)).toMatchObject({ memberCount: 1 });
    const left = await leave(pair.b, NAME, lease);
    expect(left).toMatchObject({ status: 200, body: { left: true } });
    expect(left.body).not.toHaveProperty('gone');
    expect((await leave(pair.b, NAME, lease)).body).toMatchObject({ left: true, gone: true });
  });

  test('in vain is 202, the member stays, and the same request finds it, also after it has entered', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    const waits = await enter(pair.a, NAME, one!, { size: 2, waitMs: 50 });
    expect(waits.status).toBe(202);
    expect(waits.body).toMatchObject({ entered: false, size: 2, memberCount: 1 });
    const again = await enter(pair.b, NAME, one!, { size: 2 });
    expect(again.status).toBe(202);
    const { member, memberId } = waits.body as Record<string, unknown>;
    expect(again.body).toMatchObject({ member, memberId });
    expect((await enter(pair.b, NAME, two!, { size: 2 })).status).toBe(200);
    for (const replica of [pair.a, pair.b]) {
      const entered = await enter(replica, NAME, one!, { size: 2 });
      expect(entered.status).toBe(200);
      expect(entered.body).toMatchObject({ entered: true, memberId });
    }
    expect((await show(pair.a, NAME)).memberCount).toBe(2);
  });

  test('under names, several of one lease, or by requestId', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    const bodies = [{ member: 'm1' }, { member: 'm2' }, { requestId: 'r1' }, {}];
    const replies = bodies.map((body) => enter(pair.b, NAME, lease, { size: 4, waitMs: 20_000, ...body }));
    for (const reply of await Promise.all(replies)) expect(reply.status).toBe(200);
    expect((await show(pair.a, NAME)).memberCount).toBe(4);
  });

  test('under a name that belongs to another lease is refused, and so is leaving under it', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    await enter(pair.a, NAME, one!, { size: 2, member: 'm1' });
    const refused = await enter(pair.b, NAME, two!, { size: 2, member: 'm1' });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', holder: { leaseId: one!.leaseId } });
    const kept = await leave(pair.b, NAME, two!, { member: 'm1' });
    expect(kept.status).toBe(409);
    expect(kept.body).toMatchObject({ code: 'not-holder' });
    expect((await show(pair.b, NAME)).memberCount).toBe(1);
  });

  test('with another size than those who are there is refused with theirs; an empty barrier takes any', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    await enter(pair.a, NAME, one!, { size: 3 });
    for (const lease of [one!, two!]) {
      const refused = await enter(pair.b, NAME, lease, { size: 2 });
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ code: 'conflict', size: 3 });
    }
    expect((await show(pair.a, NAME)).memberCount).toBe(1);
    expect((await leave(pair.a, NAME, one!)).status).toBe(200);
    expect((await enter(pair.b, NAME, two!, { size: 1 })).status).toBe(200);
  });

  test('by more than fit is no error: the first to come are the round, the others wait for the next', async () => {
    await using pair = await startPair();
    const leases = await leasesFor(pair.a, 5);
    const waits = [];
    for (const [i, lease] of leases.slice(0, 2).entries()) {
      waits.push(enter(pair.a, NAME, lease, { size: 3, waitMs: 20_000, member: `m${i}` }));
      await untilMembers(pair.a, NAME, i + 1);
    }
    const late = leases
      .slice(2)
      .map((lease, i) => enter(pair.b, NAME, lease, { size: 3, waitMs: 1_000, member: `m${i + 2}` }));
    for (const reply of await Promise.all(waits)) expect(reply.status).toBe(200);
    const statuses = (await Promise.all(late)).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 202, 202]);
    const { members } = await show(pair.a, NAME);
    expect(members.filter(({ entered }) => entered)).toHaveLength(3);
    expect(members).toHaveLength(5);
  });

  test('waits no longer than it may for a member that was taken away, and says so', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a, { ttlMs: scaled(1_500) });
    const waiting = enter(pair.a, NAME, lease, { size: 2, waitMs: 20_000, member: 'm1' });
    await untilMembers(pair.b, NAME, 1);
    const { control } = pair.a.gateway.context;
    await control.delete(`${directoryOf(pair)}/m1`);
    const taken = await waiting;
    expect(taken.status).toBe(409);
    expect(taken.body).toMatchObject({ code: 'conflict' });
  });

  test('keeps its lease alive while it waits, and is told when that ends all the same (C4)', async () => {
    await using pair = await startPair();
    const [one] = await leasesFor(pair.a, 1, { ttlMs: scaled(1_500) });
    const waiting = enter(pair.a, NAME, one!, { size: 2, waitMs: scaled(4_000) });
    expect((await waiting).status).toBe(202);
    expect((await pair.b.heartbeat(one!)).status).toBe(200);
    const ended = enter(pair.b, NAME, one!, { size: 2, waitMs: 20_000 });
    await eventually('it waits', async () => (await pair.b.metric('postern_waiters', { kind: 'barrier' })) === 1);
    await expireSession(pair.a, one!.leaseId);
    expect((await ended).status).toBe(410);
    expect((await show(pair.b, NAME)).memberCount).toBe(0);
  });

  test('is 202 when the replica drains, and the member enters all the same', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    const waiting = enter(pair.b, NAME, one!, { size: 2, waitMs: 20_000 });
    await eventually('it waits', async () => (await pair.b.metric('postern_waiters', { kind: 'barrier' })) === 1);
    await pair.b.gateway.stop();
    expect((await waiting).status).toBe(202);
    expect((await enter(pair.a, NAME, two!, { size: 2 })).status).toBe(200);
    expect((await enter(pair.a, NAME, one!, { size: 2 })).status).toBe(200);
  });
});

describe('leaving', () => {
  test('waits until all of the round have left, and each is told; then the next round may begin', async () => {
    await using pair = await startPair();
    const leases = await leasesFor(pair.a, 3);
    await Promise.all(leases.map((lease) => enter(pair.a, NAME, lease, { size: 3, waitMs: 20_000 })));
    let told = 0;
    const leaving = [pair.a, pair.b].map((replica, i) =>
      leave(replica, NAME, leases[i]!, { waitMs: 20_000 }).finally(() => (told += 1)),
    );
    await untilMembers(pair.b, NAME, 1);
    await throughout('nobody is told', () => told === 0);
    expect((await leave(pair.a, NAME, leases[0]!)).status).toBe(202);
    const last = await leave(pair.b, NAME, leases[2]!, { waitMs: 20_000 });
    expect(last.status).toBe(200);
    expect(last.body).toMatchObject({ name: NAME, left: true });
    for (const reply of await Promise.all(leaving)) expect(reply.body).toMatchObject({ left: true });
    expect(await show(pair.a, NAME)).toMatchObject({ entered: false, memberCount: 0 });
    for (const lease of leases) expect((await leave(pair.a, NAME, lease)).status).toBe(200);
    const again = await Promise.all(leases.map((lease) => enter(pair.b, NAME, lease, { size: 3, waitMs: 20_000 })));
    for (const reply of again) expect(reply.status).toBe(200);
  });

  test('before it has entered gives the place up, and has nobody to wait for', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    await enter(pair.a, NAME, one!, { size: 2 });
    expect((await leave(pair.b, NAME, one!, { waitMs: 20_000 })).status).toBe(200);
    expect((await enter(pair.b, NAME, two!, { size: 2 })).status).toBe(202);
  });

  test('does not wait for who has entered again, nor does that one get in before all are out (C30)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    await Promise.all(
      [one!, two!].map((lease, i) => enter(pair.a, NAME, lease, { size: 2, waitMs: 20_000, member: `m${i}` })),
    );
    expect((await leave(pair.a, NAME, one!, { member: 'm0' })).status).toBe(202);
    expect((await enter(pair.b, NAME, one!, { size: 2, member: 'm0' })).status).toBe(202);
    const reentered = enter(pair.b, NAME, one!, { size: 2, member: 'm0', waitMs: 20_000 });
    const left = await leave(pair.a, NAME, two!, { member: 'm1', waitMs: 20_000 });
    expect(left.status).toBe(200);
    expect((await enter(pair.a, NAME, two!, { size: 2, member: 'm1', waitMs: 20_000 })).status).toBe(200);
    expect((await reentered).status).toBe(200);
  });

  test('goes on when the last one dies, though nobody leaves any more (C30)', async () => {
    await using pair = await startPair();
    const leases = await leasesFor(pair.a, 3);
    await Promise.all(leases.map((lease) => enter(pair.a, NAME, lease, { size: 3, waitMs: 20_000 })));
    const leaving = [pair.a, pair.b].map((replica, i) => leave(replica, NAME, leases[i]!, { waitMs: 20_000 }));
    await untilMembers(pair.b, NAME, 1);
    await expireSession(pair.a, leases[2]!.leaseId);
    for (const reply of await Promise.all(leaving)) expect(reply.body).toMatchObject({ left: true });
  });

  test('is 202 when the replica drains, and goes on at another one', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    await Promise.all([one!, two!].map((lease) => enter(pair.a, NAME, lease, { size: 2, waitMs: 20_000 })));
    const waiting = leave(pair.b, NAME, one!, { waitMs: 20_000 });
    await eventually('it waits', async () => (await pair.b.metric('postern_waiters', { kind: 'barrier' })) === 1);
    await pair.b.gateway.stop();
    const drained = await waiting;
    expect(drained.status).toBe(202);
    expect(drained.body).toMatchObject({ left: false, memberCount: 1 });
    const again = leave(pair.a, NAME, one!, { waitMs: 20_000 });
    await eventually('it waits', async () => (await pair.a.metric('postern_waiters', { kind: 'barrier' })) === 1);
    await leave(pair.a, NAME, two!);
    expect((await again).status).toBe(200);
  });
});

describe('a `ready` that is left over', () => {
  test('because all have died lets nobody in (C30)', async () => {
    await using pair = await startPair();
    const leases = await leasesFor(pair.a, 2);
    await Promise.all(leases.map((lease) => enter(pair.a, NAME, lease, { size: 2, waitMs: 20_000 })));
    for (const { leaseId } of leases) await expireSession(pair.a, leaseId);
    expect(await pair.b.gateway.context.control.exists(`${directoryOf(pair)}/${READY}`)).toBeDefined();
    const [one, two] = await leasesFor(pair.a, 2);
    expect((await enter(pair.b, NAME, one!, { size: 2, waitMs: 300 })).status).toBe(202);
    expect((await enter(pair.a, NAME, two!, { size: 2, waitMs: 20_000 })).status).toBe(200);
    expect((await enter(pair.b, NAME, one!, { size: 2 })).status).toBe(200);
  });

  test('by another client lets nobody in either', async () => {
    await using pair = await startPair();
    const { control } = pair.a.gateway.context;
    await control.ensurePath(`${directoryOf(pair)}/${READY}`);
    const [one, two] = await leasesFor(pair.a, 2);
    expect((await enter(pair.b, NAME, one!, { size: 2, waitMs: 300 })).status).toBe(202);
    expect((await enter(pair.a, NAME, two!, { size: 2, waitMs: 20_000 })).status).toBe(200);
  });
});

describe('members of Curator', () => {
  test('count, are waited for, and begin rounds in which Postern’s members are', async () => {
    await using pair = await startPair();
    const { control } = pair.a.gateway.context;
    const [one, two] = await leasesFor(pair.a, 2);
    expect((await enter(pair.a, NAME, one!, { size: 2 })).status).toBe(202);
    // Curator finds its own node and ours, and makes an empty `ready`.
    const curator = `${directoryOf(pair)}/7a6f2e9c-0000-4000-8000-000000000001`;
    const waiting = enter(pair.b, NAME, one!, { size: 2, waitMs: 20_000 });
    await eventually('it waits', async () => (await pair.b.metric('postern_waiters', { kind: 'barrier' })) === 1);
    await control.create(curator, undefined, { mode: 'ephemeral' });
    await control.create(`${directoryOf(pair)}/${READY}`);
    expect((await waiting).status).toBe(200);
    expect((await enter(pair.a, NAME, two!, { size: 2 })).status).toBe(202);
    expect((await show(pair.b, NAME)).members.filter(({ entered }) => entered)).toHaveLength(2);
    expect((await leave(pair.a, NAME, one!)).status).toBe(202);
    await control.delete(curator);
    await eventually(
      'the round is over',
      async () => (await enter(pair.a, NAME, two!, { size: 2 })) && !(await show(pair.a, NAME)).entered,
    );
    // And the other way round: Postern finds enough, Curator's member among them.
    await control.create(curator, undefined, { mode: 'ephemeral' });
    expect((await enter(pair.b, NAME, two!, { size: 2 })).status).toBe(200);
  });
});

describe('what is shown', () => {
  test('to the lease: its membership, held when it has entered', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesFor(pair.a, 2);
    const { member, memberId } = (await enter(pair.a, NAME, one!, { size: 2 })).body as Record<string, unknown>;
    const hold = { kind: 'double-barrier', name: NAME, member };
    expect((await pair.b.showLease(one!)).body).toMatchObject({ holds: [{ ...hold, held: false }] });
    await enter(pair.b, NAME, two!, { size: 2 });
    expect((await pair.b.showLease(one!)).body).toMatchObject({ holds: [{ ...hold, held: true, holdId: memberId }] });
    const byId = await pair.a.call('GET', `/v1/leases/${one!.leaseId}`);
    expect(byId.body).toMatchObject({ holds: [{ ...hold, held: true }] });
  });

  test('by long poll and stream: when a round begins and ends, and not who gathers', async () => {
    await using pair = await startPair();
    const leases = await leasesFor(pair.a, 2);
    await using events = await EventReader.open(pair.b.url, `/v1/double-barriers/${NAME}/events`);
    expect(await events.next()).toMatchObject({ event: 'state', data: { name: NAME, entered: false, since: null } });
    const { headers } = await pair.a.call('GET', `/v1/double-barriers/${NAME}`);
    const wait = { headers: { 'if-none-match': String(headers['etag']) } };
    expect((await pair.b.call('GET', `/v1/double-barriers/${NAME}?waitMs=50`, wait)).status).toBe(304);
    const polling = pair.b.call('GET', `/v1/double-barriers/${NAME}?waitMs=20000`, wait);
    await enter(pair.a, NAME, leases[0]!, { size: 2 });
    await throughout('nothing is told', () => events.pending.length === 0);
    await enter(pair.a, NAME, leases[1]!, { size: 2 });
    expect((await polling).body).toMatchObject({ entered: true, memberCount: 2 });
    expect(await events.next()).toMatchObject({ data: { entered: true } });
    for (const lease of leases) await leave(pair.a, NAME, lease);
    expect(await events.next()).toMatchObject({ data: { entered: false } });
  });

  test('in lists, paged', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    for (const name of ['b1', 'a1', 'b2']) await enter(pair.a, name, lease, { size: 2 });
    await enter(pair.a, 'c1', lease, { size: 2 });
    await leave(pair.a, 'c1', lease);
    const list = await pair.b.expect(200, 'GET', '/v1/double-barriers');
    expect(list.items).toMatchObject([
      { name: 'a1', size: 2, memberCount: 1, entered: false },
      { name: 'b1' },
      { name: 'b2' },
    ]);
    expect(list.items).toHaveLength(3);
    const page = await pair.b.expect(200, 'GET', '/v1/double-barriers?prefix=b&limit=1');
    expect(page.items).toMatchObject([{ name: 'b1' }]);
    for (const member of ['m1', 'm2', 'm3']) await enter(pair.a, 'a1', lease, { size: 2, member });
    const members = await pair.b.expect(200, 'GET', '/v1/double-barriers/a1/members?prefix=m&limit=2');
    expect(members.items).toMatchObject([{ member: 'm1' }, { member: 'm2' }]);
    const rest = await pair.b.expect(
      200,
      'GET',
      `/v1/double-barriers/a1/members?prefix=m&pageToken=${members.nextPageToken}`,
    );
    expect(rest.items).toMatchObject([{ member: 'm3' }]);
  });
});

describe('bad input', () => {
  test('is refused, named, and enters nobody', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    for (const [body, field] of [
      [{}, 'size'],
      [{ size: 0 }, 'size'],
      [{ size: 1_001 }, 'size'],
      [{ size: 1.5 }, 'size'],
      [{ size: '3' }, 'size'],
      [{ size: 3, member: 'ready' }, 'member'],
      [{ size: 3, member: 'a/b' }, 'member'],
      [{ size: 3, member: '' }, 'member'],
      [{ size: 3, waitMs: -1 }, 'waitMs'],
      [{ size: 3, waitMs: 55_001 }, 'waitMs'],
      [{ size: 3, requestId: 'not a name' }, 'requestId'],
      [{ size: 3, value: 1 }, 'value'],
    ] as const) {
      const refused = await enter(pair.a, NAME, lease, body);
      expect(refused.status, JSON.stringify(body)).toBe(422);
      expect(refused.body).toMatchObject({ code: 'invalid', field });
    }
    for (const [body, field] of [
      [{ size: 3 }, 'size'],
      [{ member: 'ready' }, 'member'],
      [{ waitMs: 'long' }, 'waitMs'],
    ] as const)
      expect((await leave(pair.a, NAME, lease, body)).body).toMatchObject({ code: 'invalid', field });
    expect((await enter(pair.a, 'a%2Fb', lease, { size: 1 })).status).toBe(422);
    for (const verb of ['enter', 'leave']) {
      const body = verb === 'enter' ? { size: 1 } : {};
      const without = await pair.b.call('POST', `/v1/double-barriers/${NAME}/${verb}`, { body });
      expect(without.body).toMatchObject({ code: 'lease-token-required' });
    }
    for (const path of ['?waitMs=55001', '?limit=1', '/events?maxMs=0', '/members?limit=0'])
      expect((await pair.a.call('GET', `/v1/double-barriers/${NAME}${path}`)).status).toBe(422);
    await pair.a.endLease(lease);
    expect((await enter(pair.b, NAME, lease, { size: 1 })).status).toBe(410);
    expect((await leave(pair.b, NAME, lease)).status).toBe(410);
    expect(await pair.a.gateway.context.control.exists(directoryOf(pair))).toBeUndefined();
  });
});

function directoryOf({ a }: Pair | { a: Replica }): string {
  return a.gateway.context.layout.doubleBarrier('default', NAME);
}
