/** Claiming: at least once, bound to the lease, settled by whoever has the claim and by nobody else. */
import { describe, expect, test } from 'vitest';
import type { Lease } from '../../src/leases/lease.js';
import { consume } from '../../src/recipes/queue/consume.js';
import type { LeaseHandle } from '../support/client.js';
import { eventually, throughout } from '../support/eventually.js';
import { expireSession, startPair, type Pair, type Replica } from '../support/start-gateway.js';
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
} from './queue-client.js';

async function leasesOf(pair: Pair): Promise<[LeaseHandle, LeaseHandle]> {
  return Promise.all([pair.a.createLease({ ttlMs: 20_000 }), pair.b.createLease({ ttlMs: 20_000 })]);
}

async function claimOne(...args: Parameters<typeof claim>): Promise<ClaimedMessage> {
  const [message] = await claim(...args);
  if (message === undefined) throw new Error('nothing was claimed');
  return message;
}

describe('a claim', () => {
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
    await settleAll(pair.a, 'other', 'extend', lease, [other as ClaimedMessage], { claimMs: 120_000 });
    const { holds } = (await pair.a.showLease(lease)).body as { holds: Record<string, unknown>[] };
    expect(holds).toMatchObject([{ kind: 'claim', name: 'other', claimId: other?.claimId }]);
    expect(Date.parse(String(holds[0]?.['claimedUntil']))).toBeGreaterThan(Date.parse(other?.claimedUntil ?? ''));
    await pair.a.expect(204, 'DELETE', '/v1/queues/other?force=true');
    expect((await pair.b.showLease(lease)).body).toMatchObject({ holds: [] });
  });
});

describe('an acknowledgement', () => {
  test('that is repeated says that the message is gone, at any replica', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const first = await claimOne(pair.a, 'work', lease);
    await settleAll(pair.a, 'work', 'ack', lease, [first]);
    for (const replica of [pair.b, pair.a])
      expect(await settle(replica, 'work', 'ack', lease, [first])).toEqual([
        { claimId: first.claimId, status: 200, gone: true },
      ]);
  });

  test('that comes after the claim was given back is 409, giving it back again is not, and neither does anything, also when the lease has claimed anew (C20)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const first = await claimOne(pair.a, 'work', one);
    await settleAll(pair.a, 'work', 'nack', one, [first]);
    const lost = [{ claimId: first.claimId, status: 409, code: 'not-holder' }];
    const again = { ack: lost, nack: [{ claimId: first.claimId, status: 200, gone: true }] };
    // Nobody has it.
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.b, 'work', what, one, [first])).toMatchObject(again[what]);
    expect(await settle(pair.b, 'work', 'extend', one, [first], { claimMs: 60_000 })).toMatchObject(lost);
    // Another lease has it.
    const second = await claimOne(pair.b, 'work', two);
    expect(second.deliveries).toBe(2);
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.a, 'work', what, one, [first])).toMatchObject(again[what]);
    expect(await settle(pair.a, 'work', 'extend', one, [first], { claimMs: 100 })).toMatchObject(lost);
    await settleAll(pair.b, 'work', 'nack', two, [second]);
    // The lease itself has it, by another claim.
    const third = await claimOne(pair.a, 'work', one);
    expect(third.deliveries).toBe(3);
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.b, 'work', what, one, [first])).toMatchObject(again[what]);
    expect(await settle(pair.b, 'work', 'extend', one, [first], { claimMs: 100 })).toMatchObject(lost);
    expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 1, claimed: 1 });
    await settleAll(pair.b, 'work', 'ack', one, [third]);
    expect((await queueOf(pair.a, 'work')).depth).toBe(0);
  });

  test('with the claimId of another lease, or with one that is none, is 409 for that item; the others are done', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2, 3]);
    const foreign = await claimOne(pair.a, 'work', two);
    const own = await claim(pair.a, 'work', one, { max: 2 });
    const flipped = foreign.claimId.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    const ids = [foreign, ...own.slice(0, 1), { claimId: 'nonsense' }, { claimId: flipped }, ...own.slice(1)];
    for (const what of ['nack', 'extend', 'ack'] as const) {
      const body = what === 'extend' ? { claimMs: 60_000 } : {};
      const targets = what === 'nack' ? ids.filter((item) => !own.includes(item as ClaimedMessage)) : ids;
      const settled = await settle(pair.b, 'work', what, one, targets, body);
      expect(settled.map(({ claimId, status }) => [claimId, status])).toEqual(
        targets.map((item) => [item.claimId, own.includes(item as ClaimedMessage) ? 200 : 409]),
      );
    }
    expect(await peek(pair.a, 'work')).toMatchObject([{ body: 1, state: 'claimed', claimedBy: two.leaseId }]);
    await settleAll(pair.b, 'work', 'ack', two, [foreign]);
  });

  test('of more claims than fit into one transaction is done, one result for each', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(
      pair.a,
      'work',
      Array.from({ length: 700 }, (_, i) => i),
    );
    const claims: ClaimedMessage[] = [];
    while (claims.length < 700) claims.push(...(await claim(pair.a, 'work', lease, { max: 1_000 })));
    expect(bodiesOf(claims)).toEqual(Array.from({ length: 700 }, (_, i) => i));
    await settleAll(pair.b, 'work', 'ack', lease, claims.slice(300, 310));
    const settled = await settle(pair.a, 'work', 'ack', lease, claims);
    expect(settled.every(({ status }) => status === 200)).toBe(true);
    expect(settled.filter(({ gone }) => gone)).toHaveLength(10);
    expect((await queueOf(pair.b, 'work')).depth).toBe(0);
  });

  test('at a queue that is not there is 404, and of a lease that has ended 410', async () => {
    await using pair = await startPair();
    const [lease] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', lease);
    const body = { claimIds: [held.claimId] };
    const elsewhere = await pair.b.call('POST', '/v1/queues/none/ack', { body, leaseToken: lease.leaseToken });
    expect(elsewhere.status).toBe(404);
    await pair.a.endLease(lease);
    for (const what of ['ack', 'nack', 'extend'] as const) {
      const refused = await pair.b.call('POST', `/v1/queues/work/${what}`, {
        body: what === 'extend' ? { ...body, claimMs: 1_000 } : body,
        leaseToken: lease.leaseToken,
      });
      expect(refused.status).toBe(410);
    }
    expect(bodiesOf(await pop(pair.b, 'work', { waitMs: 5_000 }))).toEqual([1]);
  });
});

describe('a message that is given back', () => {
  test('is in its old place again, at once, before everything that was behind it (C22)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2, 3, 4]);
    const claims = await claim(pair.a, 'work', one, { max: 3 });
    await settleAll(pair.a, 'work', 'nack', one, [claims[1] as ClaimedMessage]);
    const second = await claimOne(pair.a, 'work', two);
    expect(second).toMatchObject({ body: 2, deliveries: 2 });
    await settleAll(pair.a, 'work', 'nack', two, [second]);
    const third = await claimOne(pair.b, 'work', two);
    expect(third).toMatchObject({ body: 2, deliveries: 3 });
    await settleAll(pair.b, 'work', 'nack', one, [claims[2] as ClaimedMessage]);
    await settleAll(pair.b, 'work', 'nack', two, [third]);
    await settleAll(pair.b, 'work', 'nack', one, [claims[0] as ClaimedMessage]);
    expect(bodiesOf(await pop(pair.b, 'work', { max: 4 }))).toEqual([1, 2, 3, 4]);
  });

  test('through another replica is in its old place as soon as claims are watched where it was handed out (C22)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2, 3, 4]);
    await pop(pair.a, 'work');
    const watches = await pair.a.metric('postern_watches');
    const claims = await claim(pair.a, 'work', one, { max: 2 });
    // Claims are watched when they are 100 ms old (ADR 12): then their end is noticed at once.
    await eventually('both are watched', async () => (await pair.a.metric('postern_watches')) === watches + 2);
    const events = await pair.a.metric('postern_watch_events_total');
    await settleAll(pair.b, 'work', 'nack', one, claims.slice(0, 1));
    await eventually('the end of the claim is heard of', async () => {
      return (await pair.a.metric('postern_watch_events_total')) > events;
    });
    expect(await claimOne(pair.a, 'work', two)).toMatchObject({ body: 2, deliveries: 2 });
    expect(await claimOne(pair.a, 'work', two)).toMatchObject({ body: 4 });
  });

  test('is there at once for who finds nothing else, whichever replica it was given back to', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [0]);
    for (let round = 1; round <= 20; round += 1) {
      const [taker, giver] = round % 2 === 0 ? [pair.a, pair.b] : [pair.b, pair.a];
      const held = await claimOne(taker, 'work', one);
      await settleAll(giver, 'work', 'nack', one, [held]);
      const again = await claimOne(taker, 'work', two);
      expect(again.deliveries).toBe(2 * round);
      await settleAll(giver, 'work', 'nack', two, [again]);
    }
  });

  test('wakes who waits, at the other replica too', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one);
    const waiting = claim(pair.b, 'work', two, { waitMs: 20_000 });
    await eventually('somebody waits', async () => (await pair.b.metric('postern_waiters', { kind: 'queue' })) === 1);
    await settleAll(pair.a, 'work', 'nack', one, [held]);
    expect(await waiting).toMatchObject([{ body: 1, deliveries: 2 }]);
  });

  test('with a delay is available no earlier than that, behind what is there by then, with its deliveries counted', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    const [pushed] = await pushBodies(pair.a, 'work', [1], { attributes: { a: 'b' } });
    const held = await claimOne(pair.a, 'work', one);
    const before = Date.now();
    await settleAll(pair.b, 'work', 'nack', one, [held], { delayMs: 700 });
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, delayed: 1, claimed: 0 });
    expect(await settle(pair.b, 'work', 'ack', one, [held])).toMatchObject([{ status: 409 }]);
    await pushBodies(pair.a, 'work', [2]);
    expect(await peek(pair.b, 'work')).toMatchObject([
      { body: 2, state: 'available' },
      { body: 1, state: 'delayed', deliveries: 1, dueAt: expect.any(String) },
    ]);
    const popped = [...(await pop(pair.a, 'work')), ...(await pop(pair.b, 'work', { waitMs: 10_000 }))];
    expect(Date.now() - before).toBeGreaterThanOrEqual(700);
    expect(popped).toMatchObject([
      { body: 2, deliveries: 1 },
      { id: pushed?.id, body: 1, deliveries: 2, attributes: { a: 'b' }, enqueuedAt: held.enqueuedAt },
    ]);
  });
});

describe('the end of a lease', () => {
  test('brings its messages back in their old places and in order, and not those of others (C22)', async () => {
    await using pair = await startPair();
    const [ends, stays] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [0, 1, 2, 3, 4, 5, 6]);
    await pop(pair.b, 'work');
    const [before, beforeB] = await Promise.all([pair.a, pair.b].map((one) => one.metric('postern_watches')));
    const [, second] = await claim(pair.a, 'work', ends, { max: 2 });
    expect(bodiesOf(await claim(pair.b, 'work', stays))).toEqual([3]);
    expect(bodiesOf(await claim(pair.b, 'work', ends))).toEqual([4]);
    await settleAll(pair.b, 'work', 'ack', ends, [second as ClaimedMessage]);
    await eventually('both replicas watch the claims that they handed out', async () => {
      const [now, nowB] = await Promise.all([pair.a, pair.b].map((one) => one.metric('postern_watches')));
      return Number(now) > Number(before) && Number(nowB) >= Number(beforeB) + 2;
    });
    await expireSession(pair.a, ends.leaseId);
    await eventually('they are free', async () => (await queueOf(pair.a, 'work')).claimed === 1);
    const popped = [
      ...(await pop(pair.b, 'work', { max: 2, waitMs: 5_000 })),
      ...(await pop(pair.a, 'work', { max: 9 })),
    ];
    expect(popped.map(({ body, deliveries }) => [body as number, deliveries])).toEqual([
      [1, 2],
      [4, 2],
      [5, 1],
      [6, 1],
    ]);
    expect(await peek(pair.a, 'work')).toMatchObject([{ body: 3, state: 'claimed', claimedBy: stays.leaseId }]);
  });

  test('wakes those who wait, at both replicas', async () => {
    await using pair = await startPair();
    const [ends] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    await claim(pair.a, 'work', ends, { max: 2 });
    const waiting = [pair.a, pair.b].map((replica) => pop(replica, 'work', { waitMs: 20_000 }));
    await throughout('nobody is served', async () => (await queueOf(pair.a, 'work')).depth === 2);
    await pair.b.endLease(ends);
    const popped = (await Promise.all(waiting)).flat();
    expect(popped.map(({ body }) => body as number).sort()).toEqual([1, 2]);
    expect(popped.every(({ deliveries }) => deliveries === 2)).toBe(true);
  });
});

describe('a claim with claimMs', () => {
  test('ends by its time although the lease lives, and not before; who does not wait gets the message then', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const before = Date.now();
    const held = await claimOne(pair.a, 'work', one, { claimMs: 600 });
    const untilMs = Date.parse(held.claimedUntil ?? '') - before;
    expect(untilMs).toBeGreaterThan(500);
    expect(untilMs).toBeLessThan(5_000);
    expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([2]);
    const again = await eventually('it is free', () => claim(pair.b, 'work', two).then(([message]) => message));
    expect(Date.now() - before).toBeGreaterThanOrEqual(590);
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
    const waiting = [pair.a, pair.b].map((replica) => claim(replica, 'work', two, { waitMs: 3_000 }));
    const first = await Promise.race(
      waiting.map(async (served) => ((await served).length > 0 ? served : Promise.race<ClaimedMessage[]>([]))),
    );
    expect(Date.now() - before).toBeGreaterThanOrEqual(790);
    expect(Date.now() - before).toBeLessThan(3_000);
    expect(first).toMatchObject([{ body: 1, deliveries: 2 }]);
    expect((await Promise.all(waiting)).flat()).toHaveLength(1);
  });

  test('is prolonged through any replica, and keeps its claimId; it is never shortened', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one, { claimMs: 1_000, requestId: 'r1' });
    const [extended] = await settle(pair.b, 'work', 'extend', one, [held], { claimMs: 60_000 });
    const untilMs = Date.parse(extended?.claimedUntil ?? '');
    expect(untilMs).toBeGreaterThan(Date.parse(held.claimedUntil ?? '') + 50_000);
    const [shorter] = await settle(pair.a, 'work', 'extend', one, [held], { claimMs: 100 });
    expect(shorter).toEqual({ claimId: held.claimId, status: 200, claimedUntil: extended?.claimedUntil });
    await throughout('nobody gets it', async () => (await pop(pair.b, 'work', { waitMs: 50 })).length === 0, {
      forMs: 1_500,
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

  test('a claim that has no time of its own is not given one by extend', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1]);
    const held = await claimOne(pair.a, 'work', one);
    expect(await settle(pair.b, 'work', 'extend', one, [held], { claimMs: 100 })).toEqual([
      { claimId: held.claimId, status: 200 },
    ]);
    expect(await pop(pair.b, 'work', { waitMs: 500 })).toEqual([]);
    await settleAll(pair.b, 'work', 'ack', one, [held]);
  });
});

describe('a message that was delivered maxDeliveries times goes to the dead letters', () => {
  async function withDeadLetters(pair: Pair): Promise<void> {
    await configure(pair.a, 'work', { maxDeliveries: 2, deadLetterQueue: 'work.dead' });
    await pushBodies(pair.b, 'work', ['poison'], { attributes: { a: 'b' } });
  }

  async function expectDead(pair: Pair, { id, enqueuedAt }: ClaimedMessage, reason?: string): Promise<void> {
    const dead = await peek(pair.b, 'work.dead');
    expect(dead).toEqual([
      {
        id,
        body: 'poison',
        attributes: { a: 'b' },
        priority: 100,
        enqueuedAt,
        deliveries: 0,
        state: 'available',
        deadLetter: { queue: 'work', ...(reason === undefined ? {} : { reason }) },
      },
    ]);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, delayed: 0, claimed: 0 });
    expect(await pop(pair.a, 'work')).toEqual([]);
  }

  test('when it is given back, with the reason', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await withDeadLetters(pair);
    await settleAll(pair.a, 'work', 'nack', one, [await claimOne(pair.b, 'work', one)], { reason: 'first' });
    const second = await claimOne(pair.a, 'work', one);
    expect(second.deliveries).toBe(2);
    await settleAll(pair.b, 'work', 'nack', one, [second], { reason: 'no such customer', delayMs: 60_000 });
    await expectDead(pair, second, 'no such customer');
    expect(await settle(pair.a, 'work', 'nack', one, [second])).toMatchObject([{ status: 200, gone: true }]);
  });

  test('when its lease ends', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await withDeadLetters(pair);
    await claimOne(pair.b, 'work', one);
    await expireSession(pair.a, one.leaseId);
    const [second] = await claim(pair.a, 'work', two, { waitMs: 10_000 });
    await expireSession(pair.a, two.leaseId);
    await eventually('it is dead', async () => {
      await pop(pair.a, 'work', { waitMs: 100 });
      return (await pair.b.call('GET', '/v1/queues/work.dead')).status === 200;
    });
    await expectDead(pair, second as ClaimedMessage);
  });

  test('when its time is over', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await withDeadLetters(pair);
    await claimOne(pair.b, 'work', one, { claimMs: 100 });
    const [second] = await claim(pair.a, 'work', one, { claimMs: 100, waitMs: 10_000 });
    expect(second).toMatchObject({ deliveries: 2 });
    expect(await pop(pair.b, 'work', { waitMs: 1_000 })).toEqual([]);
    await expectDead(pair, second as ClaimedMessage);
  });

  test('and what is behind it is delivered', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await withDeadLetters(pair);
    await pushBodies(pair.a, 'work', ['good']);
    for (const replica of [pair.a, pair.b])
      await settleAll(replica, 'work', 'nack', one, [await claimOne(replica, 'work', one)]);
    expect(bodiesOf(await claim(pair.b, 'work', one))).toEqual(['good']);
  });
});

describe('an open wait', () => {
  test('keeps the lease alive beyond its TTL, and is served then (C4)', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 1_500 });
    await pushBodies(pair.b, 'work', [0]);
    await pop(pair.b, 'work');
    const waiting = claim(pair.a, 'work', lease, { waitMs: 20_000 });
    await throughout(
      'the lease lives',
      async () => (await pair.b.call('GET', `/v1/leases/${lease.leaseId}`)).status === 200,
      {
        forMs: 4_000,
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
    const lease = await pair.a.createLease({ ttlMs: 1_500 });
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

/** As the route does, with its answer in hand and not given to anybody. */
function claimDirectly({ gateway }: Replica, lease: Lease, requestId = ''): ReturnType<typeof consume> {
  const now = performance.now();
  return consume(gateway.context, gateway.queues, {
    namespace: 'default',
    name: 'work',
    max: 2,
    claim: { lease, requestId, claimMs: undefined },
    waitMs: 0,
    receivedAt: now,
    hardDeadline: now + 10_000,
    signal: new AbortController().signal,
  });
}

async function opened({ gateway }: Replica, { leaseToken }: LeaseHandle): Promise<Lease> {
  const principal = 'anonymous';
  const { lease } = await gateway.context.leases.open(
    leaseToken,
    { principal, namespace: undefined },
    performance.now() + 10_000,
  );
  return lease;
}

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

  test('is left to the repetition of its request that was answered meanwhile (C1, C28)', async () => {
    await using pair = await startPair();
    const [one, two] = await leasesOf(pair);
    await pushBodies(pair.a, 'work', [1, 2]);
    const { undelivered } = await claimDirectly(pair.a, await opened(pair.a, one), 'r1');
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
    const { items, undelivered } = await claimDirectly(pair.a, await opened(pair.a, one), 'r1');
    expect(items).toHaveLength(2);
    undelivered();
    await throughout('nobody else gets them', async () => (await claim(pair.b, 'work', two)).length === 0);
    await settleAll(pair.b, 'work', 'ack', one, answered);
    expect((await queueOf(pair.a, 'work')).depth).toBe(0);
  });
});
