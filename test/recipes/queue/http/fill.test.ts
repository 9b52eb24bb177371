/** As many as were asked for: over what is read at once, over segments and over priorities, in the order of peek. */
import { expect, test } from 'vitest';
import { PosternError } from '../../../../src/errors.js';
import { showClaimed } from '../../../../src/http/routes/queue-words.js';
import { claimFromFirst } from '../../../../src/recipes/queue/claim/first-of-many.js';
import { PRESENT, soon } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { claimDirectly, opened } from '../claims.js';
import { bodiesOf, claim, configure, peek, pop, pushBodies } from '../client.js';

const LONG_MS = scaled(60_000);
const MIB = 1_048_576;

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

test(
  'an answer is full where there is enough, over the end of a segment and over what is read ahead',
  async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 30_000 });
    // A segment is sealed at 1 000: the second push fills it, and the last one begins another.
    await pushBodies(pair.a, 'work', range(0, 900));
    await pushBodies(pair.b, 'work', range(900, 1_150));
    await pushBodies(pair.b, 'work', range(1_150, 2_150));
    expect(bodiesOf(await pop(pair.a, 'work', { max: 300 }))).toEqual(range(0, 300));
    expect(bodiesOf(await claim(pair.b, 'work', lease, { max: 1_000 }))).toEqual(range(300, 1_300));
    expect(bodiesOf(await pop(pair.a, 'work', { max: 1_000 }))).toEqual(range(1_300, 2_150));
  },
  LONG_MS,
);

test('an answer goes on with the next priority where one ends, as peek does', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 30_000 });
  await configure(pair.a, 'work', { order: 'priority' });
  for (const priority of [700, 3, 50, 999])
    await pushBodies(
      pair.a,
      'work',
      range(0, 5).map((i) => [priority, i]),
      { priority },
    );
  const inOrder = bodiesOf(await peek(pair.b, 'work'));
  expect(inOrder).toHaveLength(20);
  expect(bodiesOf(await pop(pair.b, 'work', { max: 12 }))).toEqual(inOrder.slice(0, 12));
  expect(bodiesOf(await claim(pair.a, 'work', lease, { max: 50 }))).toEqual(inOrder.slice(12));
});

test('what was pushed before with a lower number is not overtaken by what fills an answer', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { order: 'priority' });
  await pushBodies(
    pair.a,
    'work',
    range(0, 200).map((i) => ['later', i]),
    { priority: 9 },
  );
  for (const i of range(0, 30)) {
    // The replica that takes has listed the first one, and not yet what comes behind it.
    await pushBodies(
      pair.b,
      'work',
      [
        ['first', i, 0],
        ['first', i, 1],
      ],
      { priority: 1 },
    );
    expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([['first', i, 0]]);
    await pushBodies(pair.b, 'work', [['first', i, 2]], { priority: 1 });
    expect(bodiesOf(await pop(pair.a, 'work', { max: 4 }))).toEqual([
      ['first', i, 1],
      ['first', i, 2],
      ['later', 2 * i],
      ['later', 2 * i + 1],
    ]);
  }
});

test('an answer ends where it would take more than about a mebibyte, of which most may be attributes', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 30_000 });
  // Each of these characters takes six bytes.
  const attributes = Object.fromEntries(range(0, 20).map((i) => [`attribute-${i}`, '\0'.repeat(1_024)]));
  for (const from of [0, 7, 14]) await pushBodies(pair.b, 'work', range(from, from + 7), { attributes });
  const claimed = await claim(pair.a, 'work', lease, { max: 1_000 });
  expect(JSON.stringify(claimed).length).toBeLessThan(MIB);
  const popped = await pop(pair.a, 'work', { max: 1_000 });
  expect(JSON.stringify(popped).length).toBeLessThan(MIB);
  expect(bodiesOf([...claimed, ...popped])).toEqual(range(0, 16));
});

test('room is set aside for all that an answer says of many small messages', async () => {
  await using pair = await startPair();
  const lease = await opened(pair.a, await pair.a.createLease({ ttlMs: 30_000 }));
  await pushBodies(pair.a, 'work', range(0, 300), { attributes: { of: 'all' } });
  const reserved: number[] = [];
  const reserve = (bytes: number): undefined => void reserved.push(bytes);
  const { items } = await claimDirectly(pair.a, lease, { max: 300, reserve });
  expect(items).toHaveLength(300);
  expect(reserved).toEqual([expect.any(Number)]);
  expect(reserved[0]).toBeGreaterThan(JSON.stringify(items.map(showClaimed)).length);
});

test('a repeated claim sets room aside for all of its messages, and reads none of them without', async () => {
  await using pair = await startPair();
  const lease = await opened(pair.a, await pair.a.createLease({ ttlMs: 30_000 }));
  await pushBodies(pair.a, 'work', ['x'.repeat(10_000), 'y'.repeat(10_000)]);
  const { items } = await claimDirectly(pair.a, lease, { requestId: 'r' });
  const reserved: number[] = [];
  const full = new PosternError('overloaded', 'There is no room.', { members: { limit: 'maxAnswerBytesAtOnce' } });
  const reserve = (bytes: number): PosternError => {
    reserved.push(bytes);
    return full;
  };
  await expect(claimDirectly(pair.a, lease, { requestId: 'r', reserve })).rejects.toMatchObject({
    code: 'outcome-unknown',
    members: { limit: 'maxAnswerBytesAtOnce' },
  });
  expect(reserved[0]).toBeGreaterThan(20_000);
  expect((await claimDirectly(pair.b, lease, { requestId: 'r' })).items).toEqual(items);
});

test('a repeated claim that finds its messages in several queues sets room aside for all of them together', async () => {
  await using pair = await startPair();
  const lease = await opened(pair.a, await pair.a.createLease({ ttlMs: 30_000 }));
  const names = ['one', 'two'];
  for (const name of names) {
    await pushBodies(pair.a, name, ['x'.repeat(10_000)]);
    await claimDirectly(pair.a, lease, { name, requestId: 'r' });
  }
  const reserved: number[] = [];
  const { context, recipes } = pair.a.gateway;
  const { items } = await claimFromFirst(context, recipes.queue.queues, {
    ...{ namespace: 'default', names, max: 1, claim: { lease, requestId: 'r', claimMs: undefined } },
    ...{ waitMs: 0, receivedAt: performance.now(), hardDeadline: soon(), caller: PRESENT },
    reserve: (bytes) => void reserved.push(bytes),
  });
  expect(items).toHaveLength(2);
  expect(Math.max(...reserved)).toBeGreaterThan(20_000);
});
