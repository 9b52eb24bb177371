/** As many as were asked for: over what is read at once, over segments and over priorities, in the order of peek. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { bodiesOf, claim, configure, peek, pop, pushBodies } from '../client.js';

const LONG_MS = scaled(60_000);

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
