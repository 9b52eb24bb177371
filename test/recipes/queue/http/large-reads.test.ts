/** What a replica reads of large messages at once, over the one connection that all its requests share. */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { startTcpProxy } from '../../../support/zookeeper/tcp-proxy.js';
import { configure, peek, pop, pushBodies, queueOf } from '../client.js';

const MIB = 1_048_576;
const LARGE = 'a'.repeat(50_000);
/** So many of them are pushed in one request. */
const LARGE_AT_ONCE = 16;

const MESSAGE = /\/(m-|\d{13}-)[^/]*$/;

/** What the replica's own session reads of messages from now on: how many, and how many bytes, in each request. */
function readsOf({ gateway }: Replica): { count: number; bytes: number }[] {
  const reads: { count: number; bytes: number }[] = [];
  const { control } = gateway.context;
  const multiRead = control.multiRead.bind(control);
  control.multiRead = async (operations, deadline) => {
    const answer = await multiRead(operations, deadline);
    const sizes = answer.results.map((result) => ('data' in result ? result.data.length : 0));
    if (operations.every(({ path }) => MESSAGE.test(path)))
      reads.push({ count: operations.length, bytes: sizes.reduce((sum, size) => sum + size, 0) });
    return answer;
  };
  return reads;
}

async function popOneByOne(replica: Replica, queue: string, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    await pushBodies(replica, queue, [i]);
    expect(await pop(replica, queue)).toHaveLength(1);
  }
}

test('peeks beyond what a replica may read at once wait, and those without a turn in time are refused with the limit', async () => {
  await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
  await using replica = await startReplica({
    zookeeper: proxy.connectString,
    settings: { POSTERN_MAX_READ_BYTES_AT_ONCE: String(MIB), POSTERN_REQUEST_TIMEOUT_MS: '2000' },
  });
  await configure(replica, 'work', {});
  await pushBodies(replica, 'work', [1]);
  // One page takes several turns of that length, so not even three of them come after each other in two seconds.
  proxy.delay('fromZooKeeper', 300);
  const answers = await Promise.all(Array.from({ length: 8 }, () => replica.call('GET', '/v1/queues/work/messages')));
  proxy.heal();
  expect(answers.map(({ body }) => body)).toContainEqual(
    expect.objectContaining({
      status: 503,
      code: 'overloaded',
      outcome: 'not-applied',
      limit: 'maxReadBytesAtOnce',
      maxReadBytesAtOnce: MIB,
    }),
  );
  await replica.expect(200, 'GET', '/v1/queues/work/messages');
});

test('of large messages few are read at once, however small those of other queues are, and of small ones many', async () => {
  await using replica = await startReplica();
  await popOneByOne(replica, 'small', 30);
  for (let i = 0; i < 8; i += 1) await pushBodies(replica, 'large', Array<string>(LARGE_AT_ONCE).fill(LARGE));
  const reads = readsOf(replica);
  for (let i = 0; i < 6; i += 1) expect(await pop(replica, 'large')).toMatchObject([{ body: LARGE }]);
  expect(Math.max(...reads.map(({ bytes }) => bytes))).toBeLessThan(5 * LARGE.length);
  reads.splice(0);
  await pushBodies(
    replica,
    'small',
    Array.from({ length: 300 }, (_, i) => i),
  );
  expect(await pop(replica, 'small', { max: 300 })).toHaveLength(300);
  expect(reads.map(({ count }) => count)).toEqual([128, 128, 44]);
});

test('no more messages are read at once than a connection takes, should all of them be of the largest', async () => {
  await using replica = await startReplica({ settings: { POSTERN_MAX_MESSAGE_BYTES: '921600' } });
  await popOneByOne(replica, 'work', 3);
  await pushBodies(
    replica,
    'work',
    Array.from({ length: 100 }, (_, i) => i),
  );
  const reads = readsOf(replica);
  expect(await pop(replica, 'work', { max: 100 })).toHaveLength(100);
  expect(reads.map(({ count }) => count)).toEqual([47, 47, 6]);
});

test('of large messages that are due at once few are read at once', async () => {
  await using replica = await startReplica();
  await popOneByOne(replica, 'small', 30);
  const dueAt = Date.now() + 4_000;
  for (let i = 0; i < 3; i += 1)
    await pushBodies(replica, 'work', Array<string>(LARGE_AT_ONCE).fill(LARGE), {
      delayMs: Math.max(0, dueAt - Date.now()),
    });
  expect(await queueOf(replica, 'work')).toMatchObject({ depth: 0, delayed: 48 });
  const reads = readsOf(replica);
  expect(await pop(replica, 'work', { waitMs: 20_000 })).toMatchObject([{ body: LARGE }]);
  await eventually('all are moved', async () => (await queueOf(replica, 'work')).delayed === 0);
  expect(Math.max(...reads.map(({ bytes }) => bytes))).toBeLessThan(5 * LARGE.length);
  expect(await peek(replica, 'work')).toHaveLength(47);
});
