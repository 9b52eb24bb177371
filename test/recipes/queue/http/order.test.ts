/** Order: strict inside a priority, across segments, replicas and claims; low priorities first. */
import { describe, expect, test } from 'vitest';
import { eventually, passed } from '../../../support/eventually.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import {
  bodiesOf,
  claim,
  configure,
  peek,
  pop,
  pushBodies,
  queueOf,
  settleAll,
  type ClaimedMessage,
} from '../client.js';

const LONG_MS = scaled(120_000);

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

/** Pops through both replicas in turns until nothing is left. */
async function drain(pair: Pair, max: number): Promise<unknown[]> {
  const popped: unknown[] = [];
  for (let i = 0; ; i += 1) {
    const some = bodiesOf(await pop(i % 2 === 0 ? pair.a : pair.b, 'work', { max }));
    if (some.length === 0) return popped;
    popped.push(...some);
  }
}

/** The segments that are there now. */
async function segments({ a, root }: Pair): Promise<number> {
  const { control } = a.gateway.context;
  const contents = `${root}/ns/default/queue-data`;
  const [id] = (await control.getChildren(contents)).children;
  return (await control.getChildren(`${contents}/${id}/p100`)).children.length;
}

describe('strict order', () => {
  test(
    'holds over several segments, whoever pushes and pops, in single pushes and in batches (C23, C24)',
    async () => {
      await using pair = await startPair();
      let next = 0;
      for (let round = 0; next < 3_500; round += 1) {
        // One after the other: each push begins when the one before was answered.
        const count = round % 5 === 4 ? 700 : 1;
        await pushBodies(round % 2 === 0 ? pair.a : pair.b, 'work', range(next, next + count));
        next += count;
      }
      expect(await segments(pair)).toBeGreaterThanOrEqual(3);
      expect((await queueOf(pair.b, 'work')).depth).toBe(next);
      expect(bodiesOf(await peek(pair.b, 'work', 999))).toEqual(range(0, next));
      expect(await drain(pair, 97)).toEqual(range(0, next));
      // What is used up goes away.
      await eventually('one segment is left', async () => (await segments(pair)) === 1);
    },
    LONG_MS,
  );

  test(
    'holds for each producer when both replicas push and pop at once, across the seals of segments (C24)',
    async () => {
      await using pair = await startPair();
      const producers = 6;
      const each = 450;
      let pushing = true;
      const produce = async (producer: number): Promise<void> => {
        for (let i = 0; i < each;) {
          const bodies = range(i, Math.min(each, i + (producer % 2 === 0 ? 1 : 10))).map((n) => [producer, n]);
          await pushBodies(producer < 3 ? pair.a : pair.b, 'work', bodies);
          i += bodies.length;
        }
      };
      const consume = async (consumer: number): Promise<[number, number][][]> => {
        const batches: [number, number][][] = [];
        for (;;) {
          const wasPushing = pushing;
          const some = (await pop(consumer % 2 === 0 ? pair.a : pair.b, 'work', { max: 20, waitMs: 100 })) as {
            body: [number, number];
          }[];
          if (some.length > 0) batches.push(some.map(({ body }) => body));
          else if (!wasPushing) return batches;
        }
      };
      const consuming = Promise.all(range(0, 4).map(consume));
      await Promise.all(range(0, producers).map(produce));
      pushing = false;
      const batches = (await consuming).flat();
      const all = batches.flat();
      expect(all).toHaveLength(producers * each);
      expect(new Set(all.map(String)).size).toBe(producers * each);
      // A consumer that pops alone sees each producer's messages in their order; of several, each batch.
      for (const batch of batches)
        for (const producer of range(0, producers)) {
          const own = batch.filter(([who]) => who === producer).map(([, n]) => n);
          expect(own).toEqual([...own].sort((a, b) => a - b));
        }
    },
    LONG_MS,
  );

  test(
    'steps over segments that are claimed as a whole, and goes back to them when the claims end (C22)',
    async () => {
      await using pair = await startPair();
      const lease = await pair.a.createLease({ ttlMs: 30_000 });
      for (const from of [0, 500, 1_000, 1_500]) await pushBodies(pair.a, 'work', range(from, from + 500));
      const claims: ClaimedMessage[] = [];
      while (claims.length < 1_200)
        claims.push(...(await claim(pair.a, 'work', lease, { max: Math.min(100, 1_200 - claims.length) })));
      expect(bodiesOf(claims)).toEqual(range(0, 1_200));
      expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 2_000, claimed: 1_200 });
      // Both replicas step over them.
      expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([1_200]);
      expect(bodiesOf(await pop(pair.a, 'work'))).toEqual([1_201]);
      await settleAll(pair.a, 'work', 'ack', lease, claims.slice(0, 990));
      await passed(scaled(300)); // claims are watched when they are 100 ms old (ADR 12)
      await pair.b.endLease(lease);
      await eventually('nothing is claimed', async () => (await queueOf(pair.a, 'work')).claimed === 0);
      await pair.b.gateway.context.control.sync('/'); // behind what it is told of the ends
      // The first that comes back is the oldest one; no other replica takes meanwhile.
      const rest: unknown[] = [];
      while (rest.length < 210 + 798) rest.push(...bodiesOf(await pop(pair.b, 'work', { max: 50, waitMs: 5_000 })));
      expect(rest).toEqual([...range(990, 1_200), ...range(1_202, 2_000)]);
    },
    LONG_MS,
  );
});

describe('priorities', () => {
  test('the lowest number goes first, and inside a priority the first pushed', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { order: 'priority' });
    const pushed: [number, number][] = [];
    for (const [i, priority] of [500, 3, 999, 3, 0, 500, 0, 100, 3, 999].entries()) {
      await pushBodies(i % 2 === 0 ? pair.a : pair.b, 'work', [[priority, i]], { priority });
      pushed.push([priority, i]);
    }
    await pushBodies(pair.b, 'work', [[100, 99]]); // without one it is 100
    pushed.push([100, 99]);
    expect(await drain(pair, 1)).toEqual(pushed.sort(([p, i], [q, j]) => p - q || i - j));
  });

  test('one that is pushed last with a low number is taken next, also where nobody ever used that number', async () => {
    await using pair = await startPair();
    await configure(pair.a, 'work', { order: 'priority' });
    await pushBodies(pair.a, 'work', range(0, 50), { priority: 500 });
    for (const [i, replica] of [pair.a, pair.b, pair.a, pair.b].entries()) {
      expect(await pop(replica, 'work')).toMatchObject([{ body: i, priority: 500 }]);
      const priority = 400 - 100 * i;
      await pushBodies(replica, 'work', ['urgent'], { priority });
      expect(await pop(replica, 'work')).toMatchObject([{ body: 'urgent', priority }]);
      await pushBodies(replica, 'work', ['again'], { priority });
      expect(await pop(replica, 'work')).toMatchObject([{ body: 'again', priority }]);
    }
  });

  test('a message that comes back keeps its priority, in its place and after a delay', async () => {
    await using pair = await startPair();
    const lease = await pair.a.createLease({ ttlMs: 20_000 });
    await configure(pair.a, 'work', { order: 'priority' });
    await pushBodies(pair.a, 'work', [1, 2], { priority: 5 });
    await pushBodies(pair.a, 'work', [3, 4], { priority: 50 });
    const [first, second] = await claim(pair.a, 'work', lease, { max: 2 });
    await settleAll(pair.a, 'work', { op: 'nack', delayMs: 3_000 }, lease, [first as ClaimedMessage]);
    await settleAll(pair.a, 'work', 'nack', lease, [second as ClaimedMessage]);
    expect(await pop(pair.a, 'work')).toMatchObject([{ body: 2, priority: 5 }]);
    // Who waits at the other queue's end gets what is there; the delayed one is before it as soon as it is due.
    await eventually('it is due and back', async () => {
      const held = await claim(pair.b, 'work', lease, { max: 1 });
      await settleAll(pair.b, 'work', 'nack', lease, held);
      return held[0]?.body === 1;
    });
    expect(await pop(pair.b, 'work')).toMatchObject([{ body: 1, priority: 5 }]);
    expect(await drain(pair, 1)).toEqual([3, 4]);
  });

  test(
    'a hundred of them are served in their order',
    async () => {
      await using pair = await startPair();
      await configure(pair.a, 'work', { order: 'priority' });
      const priorities = range(0, 100).map((i) => (i * 37) % 100);
      await Promise.all(
        priorities.map((priority, i) =>
          pushBodies(i % 2 ? pair.a : pair.b, 'work', [priority, priority], { priority }),
        ),
      );
      expect(await drain(pair, 10)).toEqual(range(0, 100).flatMap((i) => [i, i]));
    },
    LONG_MS,
  );
});
