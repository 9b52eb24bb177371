/** Claiming: at least once, bound to the lease, settled by whoever has the claim and by nobody else. */
import { describe, expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { startCuttable } from '../../../support/scene.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import {
  bodiesOf,
  claim,
  configure,
  peek,
  pop,
  pushBodies,
  queueOf,
  settle,
  settleAll,
  type ClaimedMessage,
  type SettledClaim,
} from '../client.js';
import { claimDirectly, claimOne, leasesOf, opened } from '../claims.js';

describe('a claim', () => {
  test.each(['not there yet', 'empty'])(
    'of a queue that is %s asks for the lease, which lives by it (C4)',
    async (which) => {
      await using pair = await startPair();
      const [lease] = await leasesOf(pair);
      if (which === 'empty') await configure(pair.b, 'early', {});
      expect(await claim(pair.a, 'early', lease)).toEqual([]);
      await expireSession(pair.b, lease.leaseId);
      const path = '/v1/queues/early/claim';
      expect((await pair.a.call('POST', path, { leaseToken: lease.leaseToken, body: {} })).status).toBe(410);
    },
  );

  test('hands messages out in order, each to one lease, until they are acknowledged through any replica', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    const pushed = await pushBodies(pair.a, 'work', [1, 2, 3, 4]);
    const first = await claim(pair.a, 'work', one, { max: 2 });
    expect(first.map(({ id }) => id)).toEqual(pushed.slice(0, 2).map(({ id }) => id));
    expect(first).toMatchObject([
      { body: 1, deliveries: 1 },
      { body: 2, deliveries: 1 },
    ]);
    expect(first[0]).not.toHaveProperty('claimedUntil');
    expect(bodiesOf(await claim(pair.b, 'work', two, { max: 2 }))).toEqual([3, 4]);
    expect(await claim(pair.a, 'work', two)).toEqual([]);
    expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 4, claimed: 4 });
    const settled = await settle(pair.b, 'work', 'ack', one, first);
    expect(settled).toEqual(first.map(({ claimId }) => ({ claimId, status: 200 })));
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 2, claimed: 2 });
  });

  test.each(['ack', 'nack'] as const)(
    'named many times in one %s is settled once, and has one answer',
    async (what) => {
      await using pair = await startPair();
      const [one] = await leasesOf(pair);
      await pushBodies(pair.a, 'work', [1, 2]);
      const claims = await claim(pair.a, 'work', one, { max: 2 });
      const repeated = Array.from({ length: 1_000 }, (_, i) => claims[i % 2] as ClaimedMessage);
      const before = await pair.a.metric('postern_queue_messages_total', { op: what });
      expect(await settle(pair.a, 'work', what, one, repeated)).toEqual(
        repeated.map(({ claimId }) => ({ claimId, status: 200 })),
      );
      expect((await pair.a.metric('postern_queue_messages_total', { op: what })) - before).toBe(2);
    },
  );

  test('without requestId gets new messages each time; with it a repetition gets the same, at any replica (C28)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2, 3, 4, 5, 6]);
    expect(bodiesOf(await claim(pair.a, 'work', one))).toEqual([1]);
    const first = await claim(pair.a, 'work', one, { requestId: 'r1', max: 2 });
    expect(bodiesOf(first)).toEqual([2, 3]);
    for (const replica of [pair.b, pair.a])
      expect(await claim(replica, 'work', one, { requestId: 'r1', max: 2 })).toEqual(first);
    expect(bodiesOf(await claim(pair.b, 'work', one, { requestId: 'r2' }))).toEqual([4]);
    // What another lease calls the same is another request.
    expect(bodiesOf(await claim(pair.b, 'work', two, { requestId: 'r1' }))).toEqual([5]);
    await settleAll(pair.b, 'work', 'ack', one, first.slice(0, 1));
    expect(await claim(pair.a, 'work', one, { requestId: 'r1', max: 2 })).toEqual(first.slice(1));
    await settleAll(pair.a, 'work', 'ack', one, first.slice(1));
    expect(bodiesOf(await claim(pair.b, 'work', one, { requestId: 'r1' }))).toEqual([6]);
  });

  test('takes its requestId from the Idempotency-Key where it has none', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const options = { body: {}, leaseToken: lease.leaseToken, headers: { 'idempotency-key': 'k1' } };
    const first = (await pair.a.expect(200, 'POST', '/v1/queues/work/claim', options)) as unknown;
    expect(await pair.b.expect(200, 'POST', '/v1/queues/work/claim', options)).toEqual(first);
  });

  test('of a lease that has ended is 410 and takes nothing; a claim needs a lease', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    await pair.a.endLease(lease);
    for (const body of [{}, { waitMs: 1_000 }, { requestId: 'r1' }]) {
      const refused = await pair.b.call('POST', '/v1/queues/work/claim', { body, leaseToken: lease.leaseToken });
      expect(refused.status).toBe(410);
      expect(refused.body).toMatchObject({ code: 'lease-expired' });
    }
    const without = await pair.b.call('POST', '/v1/queues/work/claim', { body: {} });
    expect(without.status).toBe(400);
    expect(without.body).toMatchObject({ code: 'lease-token-required' });
    expect(await peek(pair.a, 'work')).toMatchObject([{ body: 1, state: 'available', deliveries: 0 }]);
  });

  test('is shown with the lease that has it: claimId, queue and message', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    await pushBodies(pair.a, 'other', [3]);
    const claims = await claim(pair.a, 'work', lease, { max: 2, requestId: 'r1' });
    const [other] = await claim(pair.b, 'other', lease, { claimMs: 60_000 });
    const shown = (await pair.b.showLease(lease)).body as { holds: Record<string, unknown>[] };
    expect(shown.holds).toHaveLength(3);
    for (const { claimId, id } of claims)
      expect(shown.holds).toContainEqual({
        kind: 'claim',
        name: 'work',
        held: true,
        claimId,
        message: id,
        requestId: 'r1',
        since: expect.any(String),
      });
    expect(shown.holds).toContainEqual({
      kind: 'claim',
      name: 'other',
      held: true,
      claimId: other?.claimId,
      message: other?.id,
      since: expect.any(String),
      claimedUntil: other?.claimedUntil,
    });
    await settleAll(pair.b, 'work', 'ack', lease, claims);
    await settleAll(pair.a, 'other', { op: 'extend', claimMs: 120_000 }, lease, [other as ClaimedMessage]);
    const { holds } = (await pair.a.showLease(lease)).body as { holds: Record<string, unknown>[] };
    expect(holds).toMatchObject([{ kind: 'claim', name: 'other', claimId: other?.claimId }]);
    expect(Date.parse(String(holds[0]?.['claimedUntil']))).toBeGreaterThan(Date.parse(other?.claimedUntil ?? ''));
    await pair.a.expect(204, 'DELETE', '/v1/queues/other?force=true');
    expect((await pair.b.showLease(lease)).body).toMatchObject({ holds: [] });
  });
});

describe('a claim with claimMs', () => {
  test('ends by its time although the lease lives, and not before; who does not wait gets the message then', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const before = Date.now();
    const held = await claimOne(pair.a, 'work', one, { claimMs: 3_000 });
    const untilMs = Date.parse(held.claimedUntil ?? '') - before;
    expect(untilMs).toBeGreaterThan(2_900);
    expect(untilMs).toBeLessThan(10_000);
    expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([2]);
    const again = await eventually('it is free', () => claim(pair.b, 'work', two).then(([message]) => message));
    expect(Date.now() - before).toBeGreaterThanOrEqual(2_900);
    expect(again).toMatchObject({ body: 1, deliveries: 2 });
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.a, 'work', what, one, [held])).toMatchObject([{ status: 409, code: 'not-holder' }]);
    // Its message is gone, but it was somebody else who acknowledged it.
    await settleAll(pair.b, 'work', 'ack', two, [again]);
    expect(await settle(pair.a, 'work', 'ack', one, [held])).toMatchObject([{ status: 409, code: 'not-holder' }]);
    expect(await settle(pair.a, 'work', 'ack', two, [again])).toMatchObject([{ status: 200, gone: true }]);
    expect((await pair.b.showLease(one)).body).toMatchObject({ holds: [] });
  });

  test('wakes who waits when it ends, and not before', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const before = Date.now();
    await claimOne(pair.a, 'work', one, { claimMs: 800 });
    const waiting = [pair.a, pair.b].map((replica) => claim(replica, 'work', two, { waitMs: 6_000 }));
    const first = await Promise.race(
      waiting.map(async (served) => ((await served).length > 0 ? served : Promise.race<ClaimedMessage[]>([]))),
    );
    expect(Date.now() - before).toBeGreaterThanOrEqual(700);
    expect(Date.now() - before).toBeLessThan(6_000);
    expect(first).toMatchObject([{ body: 1, deliveries: 2 }]);
    expect((await Promise.all(waiting)).flat()).toHaveLength(1);
  });

  test('is prolonged through any replica, and keeps its claimId; it is never shortened', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one, { claimMs: 3_000, requestId: 'r1' });
    const [extended] = await settle(pair.b, 'work', { op: 'extend', claimMs: 60_000 }, one, [held]);
    const untilMs = Date.parse(extended?.claimedUntil ?? '');
    expect(untilMs).toBeGreaterThan(Date.parse(held.claimedUntil ?? '') + 50_000);
    const [shorter] = await settle(pair.a, 'work', { op: 'extend', claimMs: 100 }, one, [held]);
    expect(shorter).toEqual({ claimId: held.claimId, status: 200, claimedUntil: extended?.claimedUntil });
    await throughout('nobody gets it', async () => (await pop(pair.b, 'work', { waitMs: 50 })).length === 0, {
      forMs: 3_500,
    });
    expect(await claim(pair.b, 'work', one, { requestId: 'r1' })).toEqual([
      { ...held, claimedUntil: extended?.claimedUntil },
    ]);
    expect(await peek(pair.b, 'work')).toMatchObject([{ state: 'claimed', claimedUntil: extended?.claimedUntil }]);
    await settleAll(pair.a, 'work', 'ack', one, [held]);
  });

  test('is the longest that the queue allows where none is named, and a longer one is refused', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { maxClaimMs: 600 });
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.b, 'work', one);
    expect(held).toHaveProperty('claimedUntil');
    for (const [what, body] of [
      ['claim', { claimMs: 601 }],
      ['extend', { claimIds: [held.claimId], claimMs: 601 }],
    ] as const) {
      const refused = await pair.a.call('POST', `/v1/queues/work/${what}`, { body, leaseToken: two.leaseToken });
      expect(refused.status).toBe(422);
      expect(refused.body).toMatchObject({ code: 'invalid', field: 'claimMs', maxClaimMs: 600 });
    }
    expect(await claim(pair.a, 'work', two, { waitMs: 5_000 })).toMatchObject([{ body: 1, deliveries: 2 }]);
  });

  test('of two extensions at once neither shortens what the other was answered', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one, { claimMs: 10_000 });
    const { sessions } = pair.a.gateway.context.leases;
    const use = sessions.useRepeatedly.bind(sessions);
    let longer: SettledClaim | undefined;
    sessions.useRepeatedly = (lease, deadline, work, requester) => {
      sessions.useRepeatedly = use;
      const crossed: typeof work = async (session, attempt) => {
        const multi = session.multi.bind(session);
        session.multi = async (...transaction) => {
          session.multi = multi;
          [longer] = await settle(pair.a, 'work', { op: 'extend', claimMs: 120_000 }, one, [held]);
          return multi(...transaction);
        };
        return work(session, attempt);
      };
      return use(lease, deadline, crossed, requester);
    };
    const [shorter] = await settle(pair.a, 'work', { op: 'extend', claimMs: 60_000 }, one, [held]);
    expect(longer).toMatchObject({ status: 200 });
    expect(shorter).toMatchObject({ status: 200, claimedUntil: longer?.claimedUntil });
    expect(await peek(pair.b, 'work')).toMatchObject([{ claimedUntil: longer?.claimedUntil }]);
  });

  test('a claim that has no time of its own is not given one by extend', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one);
    expect(await settle(pair.b, 'work', { op: 'extend', claimMs: 100 }, one, [held])).toEqual([
      { claimId: held.claimId, status: 200 },
    ]);
    expect(await pop(pair.b, 'work', { waitMs: 500 })).toEqual([]);
    await settleAll(pair.b, 'work', 'ack', one, [held]);
  });
});

describe('an open wait', () => {
  test('keeps the lease alive beyond its TTL, and is served then (C4)', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 4_000 });
    await pushBodies(pair.b, 'work', [0]);
    await pop(pair.b, 'work');
    const waiting = claim(pair.a, 'work', lease, { waitMs: 20_000 });
    await throughout(
      'the lease lives',
      async () => (await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).status === 200,
      {
        forMs: 8_000,
      },
    );
    await pushBodies(pair.b, 'work', [1]);
    const [message] = await waiting;
    expect(message).toMatchObject({ body: 1 });
    await settleAll(pair.b, 'work', 'ack', lease, [message as ClaimedMessage]);
    // Without one it ends.
    await pair.b.untilEnded(lease);
  });

  test('of a lease that ends meanwhile is 410, and takes nothing', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pushBodies(pair.b, 'work', [0]);
    await pop(pair.b, 'work');
    const waiting = pair.a.call('POST', '/v1/queues/work/claim', {
      body: { waitMs: 20_000 },
      leaseToken: lease.leaseToken,
    });
    await eventually('somebody waits', async () => (await pair.a.metric('postern_waiters', { kind: 'queue' })) === 1);
    await expireSession(pair.b, lease.leaseId);
    const refused = await waiting;
    expect(refused.status).toBe(410);
    expect(refused.body).toMatchObject({ code: 'lease-expired' });
    await pushBodies(pair.b, 'work', [1]);
    expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([1]);
  });
});

describe('a claim whose answer cannot be written', () => {
  test('is taken back: the next one gets the messages, in order (C28)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2, 3]);
    const { items, undelivered } = await claimDirectly(pair.a, await opened(pair.a, one));
    expect(items).toHaveLength(2);
    expect(bodiesOf(await claim(pair.b, 'work', two))).toEqual([3]);
    undelivered();
    const again = await claim(pair.b, 'work', two, { max: 2, waitMs: 5_000 });
    expect(again[0]).toMatchObject({ body: 1, deliveries: 2 });
  });

  test.each(['loseRequest', 'loseReply'] as const)(
    'is taken back while its lease lives on, though that meets %s (C28)',
    async (fault) => {
      const root = freshRoot();
      await using cuttable = await startCuttable({ root });
      await using b = await startReplica({ root });
      const { replica: a, proxy } = cuttable;
      const [one, two] = [await b.createLease({ ttlMs: 60_000 }), await b.createLease({ ttlMs: 60_000 })];
      await pushBodies(b, 'work', [1, 2]);
      const { undelivered } = await claimDirectly(a, await opened(a, one));
      const cut = proxy[fault](OPCODE.multi);
      undelivered();
      await cut;
      const again: unknown[] = [];
      await eventually('all of them come back', async () => {
        again.push(...bodiesOf(await claim(b, 'work', two, { max: 2, waitMs: 500 })));
        return again.length === 2;
      });
      expect(again).toEqual([1, 2]);
    },
  );

  test('is left to the repetition of its request that was answered meanwhile (C1, C28)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const { undelivered } = await claimDirectly(pair.a, await opened(pair.a, one), { requestId: 'r1' });
    const repeated = await claim(pair.b, 'work', one, { max: 2, requestId: 'r1' });
    expect(repeated).toHaveLength(2);
    undelivered();
    await throughout('nobody else gets them', async () => (await claim(pair.b, 'work', two)).length === 0);
    await settleAll(pair.b, 'work', 'ack', one, repeated);
    expect((await queueOf(pair.a, 'work')).depth).toBe(0);
  });

  test('is not taken back by a try that comes late and finds what another one was answered with (C28)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const answered = await claim(pair.b, 'work', one, { max: 2, requestId: 'r1' });
    const { items, undelivered } = await claimDirectly(pair.a, await opened(pair.a, one), { requestId: 'r1' });
    expect(items).toHaveLength(2);
    undelivered();
    await throughout('nobody else gets them', async () => (await claim(pair.b, 'work', two)).length === 0);
    await settleAll(pair.b, 'work', 'ack', one, answered);
    expect((await queueOf(pair.a, 'work')).depth).toBe(0);
  });
});
