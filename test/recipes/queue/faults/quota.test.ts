/** ZooKeeper's own quotas: what a namespace may have in bytes, where an operator has set one. */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { startZooKeeper } from '../../../support/start-zookeeper.js';
import { timing } from '../../../support/timing.js';

const LIMIT = 200_000;

test('a namespace beyond its quota is refused with the reason, keeps what it has, and no other one notices', async () => {
  await using zookeeper = await startZooKeeper({ config: { enforceQuota: 'true' } });
  await using replica = await startReplica({ zookeeper: zookeeper.connectString });
  const push = (namespace: string): Promise<{ status: number; body: unknown }> =>
    replica.call('POST', '/v1/queues/work/messages', {
      body: { messages: [{ body: 'a'.repeat(50_000) }] },
      headers: { namespace },
    });
  for (const namespace of ['small', 'other']) expect(await push(namespace)).toMatchObject({ status: 201 });
  const { control, layout } = replica.gateway.context;
  const zk = control.until(performance.now() + timing.processMs);
  const quota = `/zookeeper/quota${layout.namespace('small')}`;
  await zk.ensure(quota);
  // As `setquota -B 200000` of zkCli writes it.
  await zk.create(
    `${quota}/zookeeper_limits`,
    Buffer.from(`count=-1,bytes=-1=;byteHardLimit=${LIMIT};countHardLimit=-1`),
  );
  await zk.create(`${quota}/zookeeper_stats`, Buffer.from('count=0,bytes=0'));
  await eventually('the quota is used up', async () => (await push('small')).status !== 201);
  expect(await push('small')).toMatchObject({
    status: 500,
    body: {
      code: 'zookeeper-error',
      retryable: false,
      outcome: 'not-applied',
      detail: expect.stringContaining('QUOTA_EXCEEDED') as string,
    },
  });
  expect(await push('other')).toMatchObject({ status: 201 });
  // Who takes something away makes room.
  const headers = { namespace: 'small' };
  expect((await replica.call('POST', '/v1/queues/work/pop', { body: {}, headers })).status).toBe(200);
  expect(await push('small')).toMatchObject({ status: 201 });
});
