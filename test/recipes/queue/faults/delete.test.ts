/** A queue is deleted while others push to it: without force nothing that was acknowledged goes with it. */
import { expect, test } from 'vitest';
import { QueueGoneError } from '../../../../src/recipes/queue/gone.js';
import { bodiesOf, configure, peek, pop, push, pushBodies, queueOf } from '../client.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { beforeMulti, soon } from '../../../support/scene.js';

/**
 * Lets `meanwhile` happen when the replica has looked at everything, and is about to send the transaction that deletes.
 */
function beforeDeletion(replica: Replica, meanwhile: () => Promise<unknown>): void {
  const queue = replica.gateway.context.layout.queue('default', 'work');
  beforeMulti(replica, meanwhile, (operations) =>
    operations.some(({ type, path }) => type === 'delete' && path === queue),
  );
}

async function refusesBecauseOf(
  pair: Pair,
  bodies: readonly unknown[],
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  beforeDeletion(pair.b, meanwhile);
  const refused = await pair.b.call('DELETE', '/v1/queues/work');
  expect(refused.status).toBe(409);
  expect(refused.body).toMatchObject({ code: 'conflict' });
  expect(bodiesOf(await peek(pair.a, 'work'))).toEqual(bodies);
}

test('a push that crosses a deletion without force is kept, and the queue with it (T7)', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { order: 'priority' });
  await refusesBecauseOf(pair, [1], () => pushBodies(pair.a, 'work', [1]));
  expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([1]);
  // Into a priority that was not there when it was looked.
  await refusesBecauseOf(pair, [2], () => pushBodies(pair.a, 'work', [2], { priority: 7 }));
  expect(bodiesOf(await pop(pair.b, 'work'))).toEqual([2]);
  // Where it is not due.
  await refusesBecauseOf(pair, [3], () => pushBodies(pair.a, 'work', [3], { delayMs: 60_000 }));
  await pair.a.expect(200, 'POST', '/v1/queues/work/purge');
  await pair.b.expect(204, 'DELETE', '/v1/queues/work');
  expect((await pair.a.call('GET', '/v1/queues/work')).status).toBe(404);
});

test('also when it fills a segment, and what was in it is taken again; then the deletion goes on (T7)', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work');
  const many = Array.from({ length: 1_000 }, (_, i) => i);
  beforeDeletion(pair.b, async () => {
    await pushBodies(pair.a, 'work', many);
    expect(await pair.a.expect(200, 'POST', '/v1/queues/work/purge')).toMatchObject({ purged: 1_000 });
  });
  await pair.b.expect(204, 'DELETE', '/v1/queues/work');
  expect((await pair.a.call('GET', '/v1/queues/work')).status).toBe(404);
  await pushBodies(pair.a, 'work', ['new']);
  expect(bodiesOf(await pop(pair.b, 'work', { max: 9 }))).toEqual(['new']);
});

test('a priority that comes into use while the queue is deleted by force takes nothing more (T7)', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { order: 'priority' });
  const { queues } = pair.a.gateway.recipes.queue;
  const old = await queues.expect('default', 'work', soon());
  beforeDeletion(pair.b, () => pushBodies(pair.a, 'work', ['goes with it'], { priority: 7 }));
  const { control } = pair.b.gateway.context;
  const remove = control.removeRecursive.bind(control);
  // As if the replica had died behind the deletion: nobody clears the old contents away.
  control.removeRecursive = () => Promise.resolve();
  await pair.b.expect(204, 'DELETE', '/v1/queues/work?force=true');
  control.removeRecursive = remove;
  // As from a replica that has not heard of it.
  const arrivals = [{ data: Buffer.from('late'), priority: 7, group: undefined, conditions: [] }];
  const late = old.lane.push({ arrivals, deadline: soon(), refused: () => Promise.resolve([]) });
  await expect(late).rejects.toBeInstanceOf(QueueGoneError);
});

test(
  'whatever is acknowledged while the queue is deleted again and again is taken once, in order (T7)',
  { timeout: scaled(90_000) },
  async () => {
    await using pair = await startPair();
    const total = 150;
    let over = false;
    let deleted = 0;
    const deleting = (async () => {
      while (!over) {
        const { status } = await pair.b.call('DELETE', '/v1/queues/work');
        if (status === 204) deleted += 1;
        else expect(status).toBe(409);
      }
    })();
    const popped: unknown[] = [];
    const popping = (async () => {
      while (popped.length < total && !over)
        popped.push(
          ...bodiesOf(await pop(popped.length % 3 === 0 ? pair.b : pair.a, 'work', { max: 3, waitMs: 2_000 })),
        );
    })();
    for (let i = 0; i < total; i += 1) {
      const delayMs = i % 10 === 9 ? 20 : 0;
      expect((await push(pair.a, 'work', [{ body: i, ...(delayMs > 0 && { delayMs }) }])).status).toBe(201);
    }
    await popping;
    over = true;
    await deleting;
    console.log(`${deleted} deletions while ${total} messages were pushed and popped`);
    const inOrder = (numbers: number[]): number[] => numbers.filter((n) => n % 10 !== 9);
    expect(inOrder(popped as number[])).toEqual(inOrder(Array.from({ length: total }, (_, i) => i)));
    expect([...(popped as number[])].sort((a, b) => a - b)).toEqual(Array.from({ length: total }, (_, i) => i));
    expect(deleted).toBeGreaterThan(0);
    if ((await pair.a.call('GET', '/v1/queues/work')).status === 200)
      expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, delayed: 0 });
  },
);
