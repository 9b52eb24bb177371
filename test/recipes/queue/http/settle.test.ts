/** What becomes of a claim: acknowledged, given back, ended with its lease, or given up to the dead letters. */
import { describe, expect, test } from 'vitest';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, STANDING_WATCHES, startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { watchedPaths } from '../../../support/zookeeper/instruments.js';
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
} from '../client.js';
import { leasesOf, claimOne } from '../claims.js';

/** How many claims a replica watches. */
async function watchedClaims({ gateway }: Replica): Promise<number> {
  const watched = await watchedPaths(gateway.context.control, sharedZooKeeper());
  return watched.filter((path) => path.endsWith('/c')).length;
}

/**
 * Claims are watched when they are 100 ms old (ADR 12): then their end is noticed at once. When nobody asks any more,
 * nothing but the queue's name is watched half a second later, and all the rest is listed anew.
 */
async function expectWatched(replica: Replica, count: number): Promise<void> {
  await eventually('all claims are watched', async () => {
    if ((await watchedClaims(replica)) === count) return true;
    return (await replica.metric('postern_watches')) <= STANDING_WATCHES + 1;
  });
}

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
    expect(await settle(pair.b, 'work', { op: 'extend', claimMs: 60_000 }, one, [first])).toMatchObject(lost);
    // Another lease has it.
    const second = await claimOne(pair.b, 'work', two);
    expect(second.deliveries).toBe(2);
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.a, 'work', what, one, [first])).toMatchObject(again[what]);
    expect(await settle(pair.a, 'work', { op: 'extend', claimMs: 100 }, one, [first])).toMatchObject(lost);
    await settleAll(pair.b, 'work', 'nack', two, [second]);
    // The lease itself has it, by another claim.
    const third = await claimOne(pair.a, 'work', one);
    expect(third.deliveries).toBe(3);
    for (const what of ['ack', 'nack'] as const)
      expect(await settle(pair.b, 'work', what, one, [first])).toMatchObject(again[what]);
    expect(await settle(pair.b, 'work', { op: 'extend', claimMs: 100 }, one, [first])).toMatchObject(lost);
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
      const settled = await settle(pair.b, 'work', { op: what, ...body }, one, targets);
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
    const claims = await claim(pair.a, 'work', one, { max: 2 });
    await expectWatched(pair.a, 2);
    await settleAll(pair.b, 'work', 'nack', one, claims.slice(0, 1));
    await eventually('the end of the claim is heard of', async () => (await watchedClaims(pair.a)) < 2);
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
    await settleAll(pair.b, 'work', { op: 'nack', delayMs: 3_000 }, one, [held]);
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, delayed: 1, claimed: 0 });
    expect(await settle(pair.b, 'work', 'ack', one, [held])).toMatchObject([{ status: 409 }]);
    await pushBodies(pair.a, 'work', [2]);
    expect(await peek(pair.b, 'work')).toMatchObject([
      { body: 2, state: 'available' },
      { body: 1, state: 'delayed', deliveries: 1, dueAt: expect.any(String) },
    ]);
    const popped = [...(await pop(pair.a, 'work')), ...(await pop(pair.b, 'work', { waitMs: 10_000 }))];
    expect(Date.now() - before).toBeGreaterThanOrEqual(2_900);
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
    const [, second] = await claim(pair.a, 'work', ends, { max: 2 });
    expect(bodiesOf(await claim(pair.b, 'work', stays))).toEqual([3]);
    expect(bodiesOf(await claim(pair.b, 'work', ends))).toEqual([4]);
    await settleAll(pair.b, 'work', 'ack', ends, [second as ClaimedMessage]);
    await expectWatched(pair.b, 3);
    await expireSession(pair.a, ends.leaseId);
    await eventually('they are free', async () => (await queueOf(pair.a, 'work')).claimed === 1);
    await pair.b.gateway.context.control.sync('/'); // behind what it is told of the ends
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

describe('a message that was delivered maxDeliveries times goes to the dead letters', () => {
  async function withDeadLetters(pair: Pair): Promise<void> {
    await configure(pair.a, 'work', { maxDeliveries: 2, deadLetterQueue: 'work.dead' });
    await pushBodies(pair.b, 'work', ['poison'], { attributes: { a: 'b' } });
  }

  /** Somebody asks for messages until it is there. */
  async function untilDead(pair: Pair): Promise<void> {
    const popped: unknown[] = [];
    await eventually('it is dead', async () => {
      popped.push(...(await pop(pair.b, 'work', { waitMs: 100 })));
      const { status, body } = await pair.b.call('GET', '/v1/queues/work.dead');
      return status === 200 && (body as { depth: number }).depth === 1;
    });
    expect(popped).toEqual([]);
  }

  async function expectDead(
    pair: Pair,
    { id, enqueuedAt }: ClaimedMessage,
    why: { cause: 'nack' | 'claim-ended'; reason?: string },
  ): Promise<void> {
    const dead = await peek(pair.b, 'work.dead');
    expect(dead).toEqual([
      {
        id,
        body: 'poison',
        attributes: { a: 'b' },
        priority: 100,
        enqueuedAt: expect.any(String) as string,
        deliveries: 0,
        state: 'available',
        deadLetter: { queue: 'work', priority: 100, deliveries: 2, enqueuedAt, ...why },
      },
    ]);
    expect(Date.parse(dead[0]!.enqueuedAt)).toBeGreaterThan(Date.parse(enqueuedAt));
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, delayed: 0, claimed: 0 });
    expect(await pop(pair.a, 'work')).toEqual([]);
  }

  test('when it is given back, with the reason', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await withDeadLetters(pair);
    await settleAll(pair.a, 'work', { op: 'nack', reason: 'first' }, one, [await claimOne(pair.b, 'work', one)]);
    const second = await claimOne(pair.a, 'work', one);
    expect(second.deliveries).toBe(2);
    await settleAll(pair.b, 'work', { op: 'nack', reason: 'no such customer', delayMs: 60_000 }, one, [second]);
    await expectDead(pair, second, { cause: 'nack', reason: 'no such customer' });
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
    await untilDead(pair);
    await expectDead(pair, second as ClaimedMessage, { cause: 'claim-ended' });
  });

  test('when its time is over', async () => {
    await using pair = await startPair();
    const [one] = await leasesOf(pair);
    await withDeadLetters(pair);
    await claimOne(pair.b, 'work', one, { claimMs: 100 });
    const [second] = await claim(pair.a, 'work', one, { claimMs: 100, waitMs: 10_000 });
    expect(second).toMatchObject({ deliveries: 2 });
    await untilDead(pair);
    await expectDead(pair, second as ClaimedMessage, { cause: 'claim-ended' });
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
