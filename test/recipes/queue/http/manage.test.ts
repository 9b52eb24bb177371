/** What is done to a queue as a whole: configured, looked at, emptied, redriven, deleted. */
import { defaultMaxListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { purge } from '../../../../src/recipes/queue/admin/empty.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { PRESENT, soon } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';
import { bodiesOf, claim, configure, peek, pop, push, pushBodies, queueOf, settle, settleAll } from '../client.js';

describe('configuring', () => {
  test('makes a queue, and replaces the configuration of one that is there, messages or not', async () => {
    await using pair = await startPair();
    const config = { maxDepth: 10, maxDeliveries: 3, deadLetterQueue: 'dead', maxClaimMs: 5_000, dedupWindowMs: 1_000 };
    const made = await configure(pair.a, 'work', config);
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ name: 'work', depth: 0, config: { order: 'fifo', ...config } });
    await pushBodies(pair.b, 'work', [1]);
    const replaced = await configure(pair.b, 'work', { maxDepth: 5 });
    expect(replaced.status).toBe(200);
    expect((await queueOf(pair.a, 'work')).config).toEqual({ order: 'fifo', maxDepth: 5, dedupWindowMs: 300_000 });
    expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([1]);
  });

  test('refuses another order while there are messages, also delayed or claimed ones: 409', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pushBodies(pair.a, 'work', [1]);
    const [held] = await claim(pair.a, 'work', lease);
    const refused = await configure(pair.b, 'work', { order: 'priority' });
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', order: 'fifo', depth: 1 });
    await settleAll(pair.b, 'work', { op: 'nack', delayMs: 60_000 }, lease, [held as { claimId: string }]);
    expect((await configure(pair.b, 'work', { order: 'priority' })).status).toBe(409);
    expect((await configure(pair.b, 'work', { maxDepth: 7 })).status).toBe(200);
    await pair.a.expect(200, 'POST', '/v1/queues/work/purge');
    expect((await configure(pair.b, 'work', { order: 'priority' })).status).toBe(200);
    expect((await queueOf(pair.a, 'work')).config).toMatchObject({ order: 'priority' });
  });

  test('at once through both replicas makes one queue', async () => {
    await using pair = await startPair();
    const made = await Promise.all([0, 1, 2, 3].map((i) => configure(i % 2 ? pair.a : pair.b, 'work')));
    expect(made.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
  });
});

describe('deleting', () => {
  test('is refused while there are messages, unless it is forced, and is 204 again when it is done', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [1]);
    const refused = await pair.b.call('DELETE', '/v1/queues/work');
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', depth: 1, delayed: 0 });
    await pushBodies(pair.a, 'later', [1], { delayMs: 60_000 });
    expect((await pair.b.call('DELETE', '/v1/queues/later')).status).toBe(409);
    for (const replica of [pair.a, pair.b])
      expect((await replica.call('DELETE', '/v1/queues/work?force=true')).status).toBe(204);
    expect((await pair.a.call('DELETE', '/v1/queues/never')).status).toBe(204);
    for (const path of ['', '/messages', '/events'])
      expect((await pair.b.call('GET', `/v1/queues/work${path}`)).status).toBe(404);
    await pop(pair.a, 'work');
    await pair.a.expect(200, 'POST', '/v1/queues/later/purge');
    expect((await pair.b.call('DELETE', '/v1/queues/later')).status).toBe(204);
  });

  test('and making anew is a queue of its own: empty at once at every replica, and no old claim means anything (T7)', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 60_000 });
    for (let round = 0; round < 10; round += 1) {
      await pushBodies(pair.a, 'work', ['old', 'old', 'old']);
      await pushBodies(pair.a, 'work', ['old'], { delayMs: 50 });
      const claims = [...(await claim(pair.b, 'work', lease)), ...(await claim(pair.a, 'work', lease))];
      expect(claims).toHaveLength(2);
      const [deletes, other] = round % 2 === 0 ? [pair.a, pair.b] : [pair.b, pair.a];
      await deletes.expect(204, 'DELETE', '/v1/queues/work?force=true');
      if (round % 3 === 0) expect(await pop(other, 'work')).toEqual([]);
      await pushBodies(round % 4 < 2 ? deletes : other, 'work', ['new']);
      for (const what of ['ack', 'nack'] as const)
        for (const { status } of await settle(other, 'work', what, lease, claims)) expect(status).toBe(409);
      expect(bodiesOf(await pop(other, 'work', { max: 10 }))).toEqual(['new']);
      expect(await pop(deletes, 'work', { max: 10 })).toEqual([]);
      expect(await queueOf(other, 'work')).toMatchObject({ depth: 0, delayed: 0, claimed: 0 });
    }
  });

  test('leaves nothing acknowledged behind that a push had put into it, delayed or not (T7)', async () => {
    await using pair = await startPair();
    for (let round = 0; round < 15; round += 1) {
      const more = round % 2 === 0 ? {} : { delayMs: 60_000 };
      await pushBodies(pair.b, 'work', ['before'], more);
      // Pushed in the order of their numbers; whatever was acknowledged after the deletion must be in the new queue.
      let deleted = false;
      const late: number[] = [];
      const pushing = (async () => {
        for (let i = 0; i < 12; i += 1) {
          const began = deleted;
          const pushed = await push(pair.b, 'work', [{ body: i, ...more }]);
          expect(pushed.status).toBe(201);
          if (began) late.push(i);
        }
      })();
      await pair.a.expect(204, 'DELETE', '/v1/queues/work?force=true');
      deleted = true;
      await pushing;
      const left = bodiesOf(await peek(pair.a, 'work')) as number[];
      expect(left).not.toContain('before');
      expect(left.slice(left.length - late.length)).toEqual(late);
      // Of those on their way meanwhile the first went with the old queue, and the others are here.
      expect(left).toEqual(Array.from({ length: 12 }, (_, i) => i).slice(12 - left.length));
      await pair.b.expect(204, 'DELETE', '/v1/queues/work?force=true');
    }
  });

  test('does not end the wait of consumers: they are served from the queue that is made anew', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [0]);
    await pop(pair.b, 'work');
    const waiting = [pair.a, pair.b].map((replica) => pop(replica, 'work', { waitMs: 20_000 }));
    for (const replica of [pair.a, pair.b])
      await eventually('one waits', async () => (await replica.metric('postern_waiters', { kind: 'queue' })) === 1);
    await pair.a.expect(204, 'DELETE', '/v1/queues/work');
    await pushBodies(pair.b, 'work', [1, 2]);
    expect(bodiesOf((await Promise.all(waiting)).flat()).sort()).toEqual([1, 2]);
  });
});

describe('purging', () => {
  test('removes all messages but claimed ones, delayed ones too, and the queue goes on', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pushBodies(
      pair.a,
      'work',
      Array.from({ length: 700 }, (_, i) => i),
    );
    await pushBodies(pair.b, 'work', ['later'], { delayMs: 60_000 });
    const claims = await claim(pair.a, 'work', lease, { max: 2 });
    await settleAll(pair.a, 'work', 'nack', lease, claims.slice(1));
    const purged = await pair.b.expect(200, 'POST', '/v1/queues/work/purge');
    expect(purged).toEqual({ purged: 700, claimed: 1, complete: true });
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, claimed: 1, delayed: 0 });
    await pushBodies(pair.a, 'work', ['new']);
    for (const replica of [pair.b, pair.a])
      expect(bodiesOf(await pop(replica, 'work'))).toEqual(replica === pair.b ? ['new'] : []);
    await settleAll(pair.b, 'work', 'ack', lease, claims.slice(0, 1));
    expect(await pair.a.expect(200, 'POST', '/v1/queues/work/purge')).toEqual({
      purged: 0,
      claimed: 0,
      complete: true,
    });
    expect((await pair.a.call('POST', '/v1/queues/none/purge')).status).toBe(404);
  });

  test('is not complete when its time is over before all delayed ones are removed', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', ['later'], { delayMs: 60_000 });
    const queue = await pair.a.gateway.recipes.queue.queues.expect('default', 'work', soon());
    // Within the second that is left for the answer.
    const purged = await purge(queue, { deadline: soon(950), requester: PRESENT });
    expect(purged).toEqual({ count: 0, claimed: 0, complete: false });
    expect(await queueOf(pair.b, 'work')).toMatchObject({ delayed: 1 });
  });
});

describe('redriving', () => {
  test('moves the messages to another queue, in order, their deliveries counted anew; claimed ones stay', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await configure(pair.a, 'work', { maxDeliveries: 1, deadLetterQueue: 'dead' });
    const pushed = await pushBodies(pair.a, 'work', [1, 2, 3, 4]);
    const claims = await claim(pair.a, 'work', lease, { max: 4 });
    await settleAll(pair.b, 'work', { op: 'nack', reason: 'down' }, lease, claims);
    expect(bodiesOf(await peek(pair.a, 'dead'))).toEqual([1, 2, 3, 4]);
    const [held] = await claim(pair.b, 'dead', lease);
    await pushBodies(pair.b, 'work', [0]);
    const redriven = await pair.b.expect(200, 'POST', '/v1/queues/dead/redrive', { body: { to: 'work' } });
    expect(redriven).toEqual({ redriven: 3, claimed: 1, complete: true });
    const popped = await pop(pair.a, 'work', { max: 10 });
    expect(popped).toMatchObject([0, 2, 3, 4].map((body) => ({ body, deliveries: 1 })));
    expect(popped.slice(1).map(({ id }) => id)).toEqual(pushed.slice(1).map(({ id }) => id));
    for (const message of popped) expect(message).not.toHaveProperty('deadLetter');
    expect(await peek(pair.a, 'dead')).toMatchObject([{ id: held?.id, state: 'claimed' }]);
    await settleAll(pair.a, 'dead', 'ack', lease, [held as { claimId: string }]);
    const itself = await pair.a.call('POST', '/v1/queues/dead/redrive', { body: { to: 'dead' } });
    expect(itself.status).toBe(422);
    expect(itself.body).toMatchObject({ field: 'to' });
    expect((await pair.a.call('POST', '/v1/queues/none/redrive', { body: { to: 'work' } })).status).toBe(404);
  });

  test('to a name that is no queue moves nothing, and makes none', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'dead', [1]);
    const mistyped = await pair.b.call('POST', '/v1/queues/dead/redrive', { body: { to: 'wrok' } });
    expect(mistyped.status).toBe(404);
    expect(mistyped.body).toMatchObject({ code: 'not-found', detail: expect.stringContaining('"wrok"') });
    expect(bodiesOf(await peek(pair.a, 'dead'))).toEqual([1]);
    expect((await pair.a.call('GET', '/v1/queues/wrok')).status).toBe(404);
  });
});

describe('looking', () => {
  test('at messages shows them in the order of their delivery, page by page, delayed ones at the end, and takes nothing', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await configure(pair.a, 'work', { order: 'priority' });
    await pushBodies(pair.a, 'work', [3, 4, 5], { priority: 7 });
    await pushBodies(pair.b, 'work', [1, 2], { priority: 2 });
    await pushBodies(pair.b, 'work', [7], { priority: 1, delayMs: 120_000 });
    await pushBodies(pair.a, 'work', [6], { priority: 9, delayMs: 60_000 });
    await claim(pair.a, 'work', lease, { claimMs: 60_000 });
    for (const [limit, replica] of [
      [1, pair.a],
      [2, pair.b],
      [3, pair.a],
      [1_000, pair.b],
    ] as const) {
      const peeked = await peek(replica, 'work', limit);
      expect(peeked.map(({ body, priority, state }) => [body as number, priority, state])).toEqual([
        [1, 2, 'claimed'],
        [2, 2, 'available'],
        [3, 7, 'available'],
        [4, 7, 'available'],
        [5, 7, 'available'],
        [6, 9, 'delayed'],
        [7, 1, 'delayed'],
      ]);
      expect(peeked[0]).toMatchObject({ claimedBy: lease.leaseId, claimedUntil: expect.any(String), deliveries: 1 });
      expect(Date.parse(peeked[5]?.dueAt ?? '')).toBeLessThan(Date.parse(peeked[6]?.dueAt ?? ''));
    }
    expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 5, claimed: 1, delayed: 2 });
  });

  test('at queues lists them in the order of their names, paged and by prefix', async () => {
    await using pair = await startPair();
    for (const name of ['b', 'a.2', 'a.1', 'c']) await pushBodies(pair.a, name, [1, 2]);
    await configure(pair.b, 'a.3', { order: 'priority' });
    const listed = (await pair.b.expect(200, 'GET', '/v1/queues')) as { items: { name: string; depth: number }[] };
    expect(listed.items.map(({ name, depth }) => [name, depth])).toEqual([
      ['a.1', 2],
      ['a.2', 2],
      ['a.3', 0],
      ['b', 2],
      ['c', 2],
    ]);
    const first = (await pair.a.expect(200, 'GET', '/v1/queues?prefix=a.&limit=2')) as {
      items: { name: string }[];
      nextPageToken: string;
    };
    expect(first.items.map(({ name }) => name)).toEqual(['a.1', 'a.2']);
    const second = (await pair.b.expect(
      200,
      'GET',
      `/v1/queues?prefix=a.&limit=2&pageToken=${first.nextPageToken}`,
    )) as {
      items: { name: string; config: unknown }[];
    };
    expect(second).toEqual({ items: [expect.objectContaining({ name: 'a.3', depth: 0, delayed: 0 })] });
  });

  test('at the oldest message tells when it was pushed, claimed or not', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await pushBodies(pair.a, 'work', [1, 2]);
    const [first, second] = await peek(pair.b, 'work');
    const [held] = await claim(pair.a, 'work', lease);
    expect((await queueOf(pair.b, 'work')).oldestEnqueuedAt).toBe(first?.enqueuedAt);
    await settleAll(pair.a, 'work', 'ack', lease, [held as { claimId: string }]);
    expect((await queueOf(pair.b, 'work')).oldestEnqueuedAt).toBe(second?.enqueuedAt);
  });

  test('counts the consumers that wait, at all replicas', async () => {
    await using pair = await startPair();
    await pushBodies(pair.a, 'work', [1]);
    await pop(pair.a, 'work');
    const leaves = new AbortController();
    const waiting = [pair.a, pair.a, pair.b].map((replica) =>
      replica
        .call('POST', '/v1/queues/work/pop', { body: { waitMs: 30_000 }, signal: leaves.signal })
        .catch(() => undefined),
    );
    await eventually('three wait', async () => (await queueOf(pair.b, 'work')).consumersWaiting === 3);
    leaves.abort();
    await Promise.all(waiting);
    await eventually('none waits', async () => (await queueOf(pair.a, 'work')).consumersWaiting === 0);
  });
});

test('the event stream begins with the state and tells when it has changed', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await configure(pair.a, 'work');
  await using events = await EventReader.open(pair.b.url, '/v1/queues/work/events');
  await using accepted = await EventReader.open(pair.b.url, '/v1/queues/work');
  expect(await events.next()).toMatchObject({ event: 'state', data: { name: 'work', depth: 0, delayed: 0 } });
  expect(await accepted.next()).toMatchObject({ event: 'state', data: { depth: 0 } });
  await throughout('nothing is told', () => events.pending.length === 0);
  await pushBodies(pair.a, 'work', [1, 2, 3]);
  expect(await events.next()).toMatchObject({ event: 'state', id: expect.any(String), data: { depth: 3 } });
  await claim(pair.a, 'work', lease);
  expect(await events.next()).toMatchObject({ data: { depth: 3, claimed: 1 } });
  await pop(pair.a, 'work');
  expect(await events.next()).toMatchObject({ data: { depth: 2, claimed: 1 } });
  await configure(pair.a, 'work', { maxDepth: 9 });
  expect(await events.next()).toMatchObject({ data: { config: { maxDepth: 9 } } });
});

test('a stream that looks again and again leaves nothing behind', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'busy');
  await using events = await EventReader.open(pair.b.url, '/v1/queues/busy/events');
  // More looks than the listeners that Node suffers at one signal: it would warn, which the log of the run does not
  // allow.
  for (let depth = 0; depth <= defaultMaxListeners + 1; depth += 1) {
    if (depth > 0) await pushBodies(pair.a, 'busy', [depth]);
    expect(await events.next()).toMatchObject({ data: { depth } });
  }
});
