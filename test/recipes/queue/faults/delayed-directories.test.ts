/**
 * Directories in which no delayed message is left: they go, however many there are, and nobody loses a message by it.
 */
import { expect, test } from 'vitest';
import { HOUSEKEEPING_TIMING } from '../../../../src/recipes/housekeeping/housekeeping.js';
import { encodeMessage } from '../../../../src/recipes/queue/message.js';
import type { Queue } from '../../../../src/recipes/queue/queue.js';
import type { MultiOperation } from '../../../../src/zookeeper/operations.js';
import { baseName, parentOf } from '../../../../src/zookeeper/paths.js';
import { eventually } from '../../../support/eventually.js';
import { beforeMulti, soon } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { countBelow } from '../../../support/zookeeper/instruments.js';
import { bodiesOf, configure, pop, pushBodies, queueOf } from '../client.js';

/** Of a second. */
const SECOND_MS = 1_024;

async function openQueue({ gateway }: Replica): Promise<Queue> {
  const queue = await gateway.recipes.queue.queues.look('default', 'work', soon());
  if (queue === undefined) throw new Error('there is no queue');
  return queue;
}

/** How many seconds have a directory. */
async function secondsOf({ control, paths }: Queue): Promise<number> {
  const { children, stat } = await control.getChildren(paths.delayed);
  expect(children).toHaveLength(stat.numChildren);
  return (await countBelow(control, paths.delayed)) - children.length;
}

/** Makes directories of the last so many seconds, as who left them empty. @returns the paths, the latest first */
async function leave(queue: Queue, count: number): Promise<string[]> {
  const { control, paths } = queue;
  const now = await queue.ensembleNow(soon());
  const seconds = Array.from({ length: count }, (_, i) => paths.delayedBucket(now - (i + 2) * SECOND_MS));
  const all = [...new Set(seconds.map(parentOf)), ...seconds];
  for (let i = 0; i < all.length; i += 500)
    await control.multi(all.slice(i, i + 500).map((path): MultiOperation => ({ type: 'create', path })));
  return seconds;
}

test('the directory of a message that was removed by its id goes when its second has passed', async () => {
  await using replica = await startReplica({ housekeeping: { ...HOUSEKEEPING_TIMING, everyMs: 50 } });
  const [pushed] = await pushBodies(replica, 'work', [1], { delayMs: 1_500 });
  const queue = await openQueue(replica);
  await replica.expect(204, 'DELETE', `/v1/queues/work/messages/${pushed?.id ?? ''}`);
  expect(await secondsOf(queue)).toBe(1);
  await eventually('it is gone', async () => (await secondsOf(queue)) === 0);
});

test('thousands of empty seconds hold up no message that is due, and are gone then', async () => {
  await using replica = await startReplica();
  await configure(replica, 'work');
  const queue = await openQueue(replica);
  const { control } = queue;
  await leave(queue, 5_000);
  await pushBodies(replica, 'work', ['due'], { delayMs: 1_000 });
  let requests = 0;
  const multiRead = control.multiRead.bind(control);
  control.multiRead = (...call) => {
    requests += 1;
    return multiRead(...call);
  };
  const listing = control.watches.getChildren.bind(control.watches);
  control.watches.getChildren = (...call) => {
    requests += 1;
    return listing(...call);
  };
  expect(bodiesOf(await pop(replica, 'work', { waitMs: 20_000 }))).toEqual(['due']);
  expect(requests).toBeLessThan(250);
  const waiting = pop(replica, 'work', { waitMs: 20_000 });
  await eventually('they are gone', async () => (await secondsOf(queue)) === 0);
  // The directories above them are of about 17 minutes, and may be needed for so long.
  await eventually('so are those above', async () => (await countBelow(control, queue.paths.delayed)) <= 1);
  await pushBodies(replica, 'work', ['end']);
  expect(bodiesOf(await waiting)).toEqual(['end']);
});

test('a message that comes into an empty second just before its removal is delivered', async () => {
  await using replica = await startReplica();
  await configure(replica, 'work');
  const queue = await openQueue(replica);
  const { control, paths } = queue;
  const [second = ''] = await leave(queue, 1);
  const remove = control.delete.bind(control);
  let came = 0;
  control.delete = async (path, ...how) => {
    if (path === second && came === 0) {
      came += 1;
      const data = encodeMessage({ header: { i: 'late' }, body: Buffer.from('"late"') });
      const dueAt = Math.floor(await queue.ensembleNow(soon())) - 2 * SECOND_MS;
      const name = baseName(paths.delayedMessage(dueAt));
      await control.create(`${second}/${name}`, data, { mode: 'persistent-sequential' });
    }
    return remove(path, ...how);
  };
  expect(bodiesOf(await pop(replica, 'work', { waitMs: 20_000 }))).toEqual(['late']);
  expect(came).toBe(1);
});

test('a push makes room again where what it had made was removed before its transaction', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work');
  const queue = await openQueue(pair.b);
  const { control, paths } = queue;
  let transactions = 0;
  const isDelayed = ({ type, path }: MultiOperation): boolean =>
    type === 'create' && path.startsWith(`${paths.delayed}/`);
  let removed = 0;
  beforeMulti(
    pair.a,
    async () => {
      const [coarse = ''] = (await control.getChildren(paths.delayed)).children;
      const [second = ''] = (await control.getChildren(`${paths.delayed}/${coarse}`)).children;
      for (const path of [`${paths.delayed}/${coarse}/${second}`, `${paths.delayed}/${coarse}`]) {
        await control.delete(path);
        removed += 1;
      }
    },
    // The first one finds that there is no room.
    (operations) => operations.some(isDelayed) && (transactions += 1) === 2,
  );
  await pushBodies(pair.a, 'work', [1], { delayMs: 60_000 });
  expect(removed).toBe(2);
  expect(await queueOf(pair.b, 'work')).toMatchObject({ depth: 0, delayed: 1 });
});
