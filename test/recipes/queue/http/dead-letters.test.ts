/** What a dead letter keeps of what it was, and what of that comes back when it is redriven. */
import { describe, expect, test } from 'vitest';
import { encodeMessage } from '../../../../src/recipes/queue/message.js';
import { QueuePaths } from '../../../../src/recipes/queue/paths.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { claim, configure, peek, pop, push, pushBodies, queueOf, settle, settleAll } from '../client.js';

const TTL_MS = 20_000;

/** Of the only message that there is, with this priority. */
async function pathOf({ a }: Pair, priority: number): Promise<string> {
  const { control, layout } = a.gateway.context;
  const only = async (directory: string): Promise<string> => {
    const { children } = await control.getChildren(directory);
    expect(children).toHaveLength(1);
    return `${directory}/${children[0]}`;
  };
  const queue = await only(layout.queueContents('default'));
  return only(await only(new QueuePaths(queue).priority(priority)));
}

describe('a dead letter of a queue with priorities', () => {
  test('keeps its priority in a dead-letter queue without, is shown with it, and has it again when it is redriven', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await configure(pair.a, 'work', { order: 'priority', maxDeliveries: 1, deadLetterQueue: 'work.dead' });
    await push(pair.a, 'work', [{ body: 'late', priority: 900 }]);
    await push(pair.a, 'work', [{ body: 'urgent', priority: 1 }]);
    const claims = await claim(pair.b, 'work', lease, { max: 2 });
    await settleAll(pair.a, 'work', { op: 'nack', reason: 'down' }, lease, claims);
    const note = (priority: number): object => ({
      deadLetter: { queue: 'work', cause: 'nack', reason: 'down', priority, deliveries: 1 },
    });
    const dead = await peek(pair.b, 'work.dead');
    expect(dead.map(({ body }) => body as string).sort()).toEqual(['late', 'urgent']);
    for (const letter of dead)
      expect(letter).toMatchObject({ deliveries: 0, ...note(letter.body === 'urgent' ? 1 : 900) });
    await push(pair.a, 'work', [{ body: 'normal', priority: 50 }]);
    await pair.b.expect(200, 'POST', '/v1/queues/work.dead/redrive', { body: { to: 'work' } });
    const popped = await pop(pair.b, 'work', { max: 10 });
    expect(popped).toMatchObject([
      { body: 'urgent', priority: 1, deliveries: 1 },
      { body: 'normal', priority: 50 },
      { body: 'late', priority: 900, deliveries: 1 },
    ]);
  });

  test('stands at its priority in a dead-letter queue that has priorities too', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await configure(pair.a, 'work.dead', { order: 'priority' });
    await configure(pair.a, 'work', { order: 'priority', maxDeliveries: 1, deadLetterQueue: 'work.dead' });
    for (const priority of [7, 3]) await push(pair.a, 'work', [{ body: priority, priority }]);
    for (let i = 0; i < 2; i += 1) await settleAll(pair.b, 'work', 'nack', lease, await claim(pair.a, 'work', lease));
    expect(await peek(pair.b, 'work.dead')).toMatchObject([{ priority: 3 }, { priority: 7 }]);
  });
});

describe('a message that nobody can process', () => {
  test('is a dead letter at once, when it is given back so, and the others that are given back are not', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await configure(pair.a, 'work', { maxDeliveries: 5, deadLetterQueue: 'work.dead' });
    await push(pair.a, 'work', [{ body: 'poison' }, { body: 'fine' }]);
    const [poison, fine] = await claim(pair.b, 'work', lease, { max: 2 });
    await settleAll(pair.a, 'work', { op: 'nack', deadLetter: true, reason: 'no such customer' }, lease, [poison!]);
    await settleAll(pair.a, 'work', { op: 'nack', deadLetter: false }, lease, [fine!]);
    expect(await peek(pair.b, 'work.dead')).toMatchObject([
      { body: 'poison', deliveries: 0, deadLetter: { cause: 'nack', reason: 'no such customer', deliveries: 1 } },
    ]);
    expect(await peek(pair.b, 'work')).toMatchObject([{ body: 'fine', deliveries: 1 }]);
    // Repeated it is done already, and never is one of somebody else's.
    expect(await settle(pair.b, 'work', { op: 'nack', deadLetter: true }, lease, [poison!])).toMatchObject([
      { status: 200, gone: true },
    ]);
    const other = await pair.a.createLease({ ttlMs: TTL_MS });
    const [again] = await claim(pair.a, 'work', other);
    expect(await settle(pair.b, 'work', { op: 'nack', deadLetter: true }, lease, [fine!, again!])).toMatchObject([
      { status: 200, gone: true },
      { status: 409 },
    ]);
    expect((await queueOf(pair.b, 'work.dead')).depth).toBe(1);
  });

  test('stays claimed when the queue has no dead letters, or when it shall also wait', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await push(pair.a, 'work', [{ body: 'poison' }]);
    const claimIds = (await claim(pair.b, 'work', lease)).map(({ claimId }) => claimId);
    for (const [body, field] of [
      [{ claimIds, deadLetter: true }, 'deadLetter'],
      [{ claimIds, deadLetter: true, delayMs: 1 }, 'delayMs'],
      [{ claimIds, deadLetter: 1 }, 'deadLetter'],
    ] as const)
      expect(await pair.a.call('POST', '/v1/queues/work/nack', { body, leaseToken: lease.leaseToken })).toMatchObject({
        status: 422,
        body: { code: 'invalid', field },
      });
    expect(await queueOf(pair.b, 'work')).toMatchObject({ claimed: 1 });
  });
});

test('a message is as old as its stay in the queue that it is in: for the alert, it is new when it comes, and when it is redriven', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: TTL_MS });
  await configure(pair.a, 'work', { maxDeliveries: 1, deadLetterQueue: 'work.dead' });
  await push(pair.a, 'work', [{ body: 'old' }]);
  const [claimed] = await claim(pair.b, 'work', lease);
  const pushedAt = claimed?.enqueuedAt;
  await settleAll(pair.b, 'work', 'nack', lease, [claimed as { claimId: string }]);
  const dead = await queueOf(pair.a, 'work.dead');
  expect(Date.parse(dead.oldestEnqueuedAt as string)).toBeGreaterThan(Date.parse(pushedAt as string));
  expect((await peek(pair.a, 'work.dead'))[0]).toMatchObject({
    enqueuedAt: dead.oldestEnqueuedAt,
    deadLetter: { enqueuedAt: pushedAt },
  });
  await pair.b.expect(200, 'POST', '/v1/queues/work.dead/redrive', { body: { to: 'work' } });
  const again = await queueOf(pair.b, 'work');
  expect(Date.parse(again.oldestEnqueuedAt as string)).toBeGreaterThan(Date.parse(dead.oldestEnqueuedAt as string));
});

test('a dead letter as earlier versions wrote it is shown and redriven', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'dead', { order: 'priority' });
  await push(pair.a, 'dead', [{ body: 'x', priority: 5 }]);
  const path = await pathOf(pair, 5);
  const header = { i: 'AAAA', e: Date.UTC(2026, 0, 1), x: { queue: 'work', reason: 'once' } };
  await pair.a.gateway.context.control.setData(path, encodeMessage({ header, body: Buffer.from('"x"') }), -1);
  const [shown] = await peek(pair.b, 'dead');
  expect(shown).toMatchObject({ id: 'AAAA', enqueuedAt: '2026-01-01T00:00:00.000Z' });
  expect(shown?.deadLetter).toEqual({ queue: 'work', reason: 'once' });
  await configure(pair.a, 'work', { order: 'priority' });
  await pair.a.expect(200, 'POST', '/v1/queues/dead/redrive', { body: { to: 'work' } });
  expect(await pop(pair.b, 'work')).toMatchObject([{ id: 'AAAA', priority: 5 }]);
});

describe('a message that has no dead-letter queue to go to, because there are as many queues as there may be,', () => {
  const settings = { POSTERN_MAX_NAMES: '2' };
  const isDead = async ({ b }: Pair): Promise<boolean> => {
    const { status, body } = await b.call('GET', '/v1/queues/work.dead');
    return status === 200 && (body as { depth: number }).depth === 1;
  };

  test.each([
    ['in their places', {}],
    ['for later', { delayMs: 60_000 }],
  ])('does not keep the others of a request from being given back %s, which is not called undone', async (_, how) => {
    await using pair = await startPair({ settings });
    await configure(pair.a, 'work', { maxDeliveries: 2, deadLetterQueue: 'work.dead' });
    await configure(pair.a, 'other');
    await pushBodies(pair.a, 'work', ['worn', 'fine']);
    const lease = await pair.a.createLease({ ttlMs: TTL_MS });
    await settleAll(pair.a, 'work', 'nack', lease, await claim(pair.a, 'work', lease));
    const [worn, fine] = await claim(pair.a, 'work', lease, { max: 2 });
    const claims = [fine!, worn!];
    const options = { leaseToken: lease.leaseToken, body: { claimIds: claims.map(({ claimId }) => claimId), ...how } };
    const nack = () => pair.a.call('POST', '/v1/queues/work/nack', options);
    expect(await nack()).toMatchObject({ status: 503, body: { code: 'outcome-unknown', limit: 'maxNames' } });
    expect(await queueOf(pair.b, 'work')).toMatchObject({ claimed: 1 });
    expect(await nack()).toMatchObject({ status: 409, body: { code: 'too-many-names', outcome: 'not-applied' } });
    await pair.b.expect(204, 'DELETE', '/v1/queues/other?force=true');
    await eventually('it can be given back', async () => (await nack()).status === 200);
    expect(await isDead(pair)).toBe(true);
  });
});
