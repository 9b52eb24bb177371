/** Delayed messages: not before they are due, and soon after, whoever dies meanwhile. */
import { expect, test } from 'vitest';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { Noise } from '../../../support/noise.js';
import { spawnReplica, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { bodiesOf, configure, peek, pop, pushBodies, pushRaw, queueOf } from '../client.js';

/** Half a second is what the design promises; the rest is for a server that stands still for a moment. */
const LATE_MS = scaled(2_000);
/** Each of two replicas knows the time to within half a round trip. */
const EARLY_MS = 100;

test('a delayed message is delivered to who waits no earlier than due and soon after that', async () => {
  await using pair = await startPair();
  for (const [pusher, consumer] of [
    [pair.a, pair.a],
    [pair.a, pair.b],
    [pair.b, pair.a],
  ] as const) {
    const pushedAt = performance.now();
    await pushBodies(pusher, 'work', ['later'], { delayMs: 700 });
    const answeredAt = performance.now();
    using noise = new Noise();
    const popped = await pop(consumer, 'work', { waitMs: 20_000 });
    expect(performance.now() - pushedAt).toBeGreaterThanOrEqual(700 - EARLY_MS);
    expect(performance.now() - answeredAt - noise.ms).toBeLessThan(700 + LATE_MS);
    expect(popped).toMatchObject([{ body: 'later', deliveries: 1 }]);
  }
});

test('it counts as delayed until then, and goes behind what is there by then', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', ['later'], { delayMs: 6_000 });
  await pushRaw(pair.b, 'work', 'raw', 'text/plain', { query: '?delayMs=3000' });
  await pushBodies(pair.a, 'work', ['now']);
  expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 1, delayed: 2 });
  expect((await peek(pair.b, 'work')).map(({ state }) => state)).toEqual(['available', 'delayed', 'delayed']);
  const popped = [];
  while (popped.length < 3) popped.push(...(await pop(pair.a, 'work', { waitMs: 10_000 })));
  expect(popped.map(({ body, contentType }) => (contentType ?? body) as string)).toEqual([
    'now',
    'text/plain',
    'later',
  ]);
});

test('those that are due at different times come in that order, whenever they were pushed', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work');
  const waiting = pop(pair.b, 'work', { waitMs: 20_000 });
  for (const delayMs of [6_000, 300, 3_000]) await pushBodies(pair.a, 'work', [delayMs], { delayMs });
  const popped = bodiesOf(await waiting);
  while (popped.length < 3) popped.push(...bodiesOf(await pop(pair.b, 'work', { waitMs: 10_000 })));
  expect(popped).toEqual([300, 3_000, 6_000]);
});

test('who does not wait gets it too as soon as it is due, with nobody else about', async () => {
  await using pair = await startPair();
  for (const replica of [pair.a, pair.b]) {
    await pushBodies(pair.a, 'work', [1], { delayMs: 2_500 });
    expect(await pop(replica, 'work')).toEqual([]);
    await passed(2_500); // what is due is the passing of time
    // Beyond that only what the replicas do not know of the time.
    const withinMs = scaled(500);
    await eventually('it is there', async () => bodiesOf(await pop(replica, 'work'))[0] === 1, { withinMs });
  }
});

test(
  'it comes in time although the replica that the consumer waited at first was killed',
  async () => {
    const root = freshRoot();
    await using survivor = await startReplica({ root });
    await using dies = await spawnReplica({ root });
    await pushBodies(survivor, 'work', [0]);
    await pop(dies, 'work');
    const delayMs = 3_000;
    const cut = dies.call('POST', '/v1/queues/work/pop', { body: { waitMs: 30_000 } }).catch(() => 'cut');
    await eventually('somebody waits there', async () => (await queueOf(survivor, 'work')).consumersWaiting === 1);
    using noise = new Noise();
    const pushedAt = performance.now();
    await pushBodies(dies, 'work', ['later'], { delayMs });
    const answeredAt = performance.now();
    const waiting = pop(survivor, 'work', { waitMs: 30_000 });
    await throughout('it is not there', async () => (await queueOf(survivor, 'work')).delayed === 1);
    await dies.kill();
    expect(await cut).toBe('cut');
    expect(bodiesOf(await waiting)).toEqual(['later']);
    expect(performance.now() - pushedAt).toBeGreaterThanOrEqual(delayMs - EARLY_MS);
    expect(performance.now() - answeredAt - noise.ms).toBeLessThan(delayMs + LATE_MS);
  },
  scaled(90_000),
);
