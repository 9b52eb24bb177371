/** What a replica reads of large messages at once, over the one connection that all its requests share. */
import { expect, test } from 'vitest';
import { startReplica } from '../../../support/start-gateway.js';
import { sharedZooKeeper } from '../../../support/start-zookeeper.js';
import { startTcpProxy } from '../../../support/zookeeper/tcp-proxy.js';
import { configure, pushBodies } from '../client.js';

const MIB = 1_048_576;

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
