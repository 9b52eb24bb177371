/** Shares: parts divided among the members of a group, over two replicas. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { join, joinAsForeigner, leaseFor, leave, ownersIn, sharesOf } from '../client.js';

describe('shares', () => {
  test('are nobody’s in an empty group, and everything is the only member’s', async () => {
    await using pair = await startPair();
    expect(await sharesOf(pair.a, 'team', 4)).toMatchObject({ of: 4, version: 0, memberCount: 0, shares: [] });
    await join(pair.a, 'team', 'w1', await leaseFor(pair.a));
    const shares = await sharesOf(pair.b, 'team', 4);
    expect(shares).toMatchObject({ memberCount: 1, shares: [{ member: 'w1', parts: [0, 1, 2, 3] }] });
    expect(shares.version).toBeGreaterThan(0);
  });

  test('of fewer parts than members leave some without', async () => {
    await using pair = await startPair();
    const lease = await leaseFor(pair.a);
    for (const member of ['w1', 'w2', 'w3']) await join(pair.a, 'team', member, lease);
    const shares = await sharesOf(pair.b, 'team', 2);
    expect(shares).toMatchObject({ memberCount: 3 });
    expect(shares.shares.map(({ parts }) => parts.length)).toEqual([1, 1]);
  });

  test('count members that joined without Postern', async () => {
    await using pair = await startPair();
    await joinAsForeigner(pair.a, 'team', 'curator', 'payload');
    await join(pair.a, 'team', 'w1', await leaseFor(pair.a));
    expect((await sharesOf(pair.b, 'team', 10)).shares.map(({ member, parts }) => [member, parts.length])).toEqual([
      ['curator', 5],
      ['w1', 5],
    ]);
  });

  test(
    'are the same at both replicas for one version, balanced, and move at most an n-th part per change, whoever comes and goes',
    { timeout: scaled(120_000) },
    async () => {
      await using pair = await startPair();
      const lease = await leaseFor(pair.a, { ttlMs: 40_000 });
      let run = 0;
      const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 7 }), fc.boolean()), { minLength: 3, maxLength: 14 });
      await fc.assert(
        fc.asyncProperty(steps, fc.integer({ min: 1, max: 64 }), async (changes, of) => {
          const group = `team-${(run += 1)}`;
          const members = new Set<string>();
          let before = await sharesOf(pair.a, group, of);
          for (const [who, atA] of changes) {
            const member = `w${who}`;
            const replica = atA ? pair.a : pair.b;
            const joins = !members.has(member);
            const status = (
              joins ? await join(replica, group, member, lease) : await leave(replica, group, member, lease)
            ).status;
            expect(status).toBe(joins ? 201 : 204);
            if (joins) members.add(member);
            else members.delete(member);
            const [a, b] = await Promise.all([sharesOf(pair.a, group, of), sharesOf(pair.b, group, of)]);
            expect(b).toEqual(a);
            expect(a.version).toBeGreaterThan(before.version);
            expect(a.memberCount).toBe(members.size);
            const owners = ownersIn(a);
            const loads = [...members].map((name) => owners.filter((owner) => owner === name).length);
            expect(loads.reduce((sum, load) => sum + load, 0)).toBe(members.size === 0 ? 0 : of);
            if (members.size > 0) expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
            if (members.size > 0 && before.memberCount > 0) {
              const was = ownersIn(before);
              const moved = owners.filter((owner, part) => owner !== was[part]).length;
              const n = Math.max(members.size, before.memberCount);
              expect(moved).toBeLessThanOrEqual(joins ? Math.floor(of / n) : Math.ceil(of / n));
            }
            before = a;
          }
          await Promise.all([...members].map((member) => leave(pair.a, group, member, lease)));
          await pair.a.heartbeat(lease);
        }),
        { numRuns: 12 },
      );
    },
  );

  test('agree for one version also while many ask at both replicas and members come and go', async () => {
    await using pair = await startPair();
    const leases = await Promise.all(Array.from({ length: 6 }, () => leaseFor(pair.a)));
    const byVersion = new Map<number, string>();
    let over = false;
    const asking = Promise.all(
      [pair.a, pair.b, pair.a, pair.b].map(async (replica) => {
        while (!over) {
          const { version, ...division } = await sharesOf(replica, 'team', 32);
          if (division.memberCount === 0) continue;
          const text = JSON.stringify(division);
          expect(byVersion.get(version) ?? text).toBe(text);
          byVersion.set(version, text);
        }
      }),
    );
    for (let round = 0; round < 10; round += 1)
      await Promise.all(
        leases.map(async (lease, i) => {
          await join(i % 2 === 0 ? pair.a : pair.b, 'team', `w${i}`, lease);
          await leave(i % 2 === 0 ? pair.b : pair.a, 'team', `w${i}`, lease);
        }),
      );
    over = true;
    await asking;
    expect(byVersion.size).toBeGreaterThan(3);
  });

  test('are waited for: a long poll is answered when they are divided anew, and not when a member changes its value', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await join(pair.a, 'team', 'w1', one);
    await join(pair.a, 'team', 'w2', two);
    const { headers, body } = await pair.b.call('GET', '/v1/groups/team/shares?of=8');
    expect(headers['etag']).toBe(`"${(body as { version: number }).version}"`);
    const wait = { headers: { 'if-none-match': String(headers['etag']) } };
    expect((await pair.a.call('GET', '/v1/groups/team/shares?of=8', wait)).status).toBe(304);
    expect((await pair.a.call('GET', '/v1/groups/team/shares?of=8&waitMs=100', wait)).status).toBe(304);
    let answered = false;
    const polling = pair.b
      .call('GET', '/v1/groups/team/shares?of=8&waitMs=20000', wait)
      .finally(() => (answered = true));
    await eventually('the group is observed', () => pair.b.gateway.observed() === 1);
    await join(pair.a, 'team', 'w1', one, { value: 'new' });
    await throughout('it waits', () => !answered);
    await expireSession(pair.a, two.leaseId);
    expect((await polling).body).toMatchObject({
      memberCount: 1,
      shares: [{ member: 'w1', parts: [0, 1, 2, 3, 4, 5, 6, 7] }],
    });
  });

  test('stay as they are when a member comes back under its name', async () => {
    await using pair = await startPair();
    const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
    await join(pair.a, 'team', 'w1', one);
    await join(pair.a, 'team', 'w2', two);
    const before = await sharesOf(pair.a, 'team', 7);
    await leave(pair.a, 'team', 'w2', two);
    await join(pair.b, 'team', 'w2', one);
    const after = await sharesOf(pair.b, 'team', 7);
    expect(after.shares).toEqual(before.shares);
    expect(after.version).toBeGreaterThan(before.version);
  });
});
