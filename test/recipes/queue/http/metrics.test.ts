/** What the metrics tell of queues. */
import { describe, expect, test, vi } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { claim, configure, peek, pop, pushBodies, settleAll, type ClaimedMessage } from '../client.js';

function counted(replica: Replica, op: string): Promise<number> {
  return replica.metric('postern_queue_messages_total', { op });
}

test('messages are counted by what is done to them, once, at the replica that does it', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await configure(pair.a, 'work', { maxDeliveries: 2, deadLetterQueue: 'dead' });
  await pushBodies(pair.a, 'work', [1, 2, 3]);
  await pushBodies(pair.a, 'work', [4], { messageId: 'm4' });
  await pushBodies(pair.a, 'work', [4], { messageId: 'm4' });
  const [first, second] = await claim(pair.a, 'work', lease, { max: 2 });
  await settleAll(pair.a, 'work', 'ack', lease, [first as ClaimedMessage]);
  await settleAll(pair.a, 'work', 'ack', lease, [first as ClaimedMessage]); // gone: not counted
  await settleAll(pair.a, 'work', 'nack', lease, [second as ClaimedMessage]);
  const [again] = await claim(pair.a, 'work', lease);
  await settleAll(pair.a, 'work', 'nack', lease, [again as ClaimedMessage]); // dead
  await pop(pair.a, 'work');
  await configure(pair.a, 'other');
  await pair.a.expect(200, 'POST', '/v1/queues/dead/redrive', { body: { to: 'other' } });
  await pair.a.expect(200, 'POST', '/v1/queues/work/purge');
  await pushBodies(pair.a, 'timed', [1]);
  await claim(pair.a, 'timed', lease, { claimMs: 100 });
  expect(await claim(pair.a, 'timed', lease, { waitMs: 10_000 })).toHaveLength(1);
  for (const [op, count] of Object.entries({
    push: 5,
    pop: 1,
    claim: 5,
    ack: 1,
    nack: 2,
    dead_letter: 1,
    redrive: 1,
    purge: 1,
    expire: 1,
  })) {
    expect([op, await counted(pair.a, op)]).toEqual([op, count]);
    expect([op, await counted(pair.b, op)]).toEqual([op, 0]); // and there from the start
  }
  expect(await pair.a.metric('postern_queue_redeliveries_total')).toBe(2);
  expect(await pair.a.metric('postern_queue_claim_conflicts_total')).toBe(0);
});

test('depth and oldest message are told of the queues in use, under their names', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', [1, 2]);
  const [oldest] = await peek(pair.a, 'work');
  await pair.a.gateway.recipes.queue.metrics.count();
  expect(await pair.a.metric('postern_queue_depth', { queue: 'work' })).toBe(2);
  expect(await pair.a.metric('postern_queue_oldest_message_timestamp_seconds', { queue: 'work' })).toBe(
    Date.parse(oldest?.enqueuedAt ?? '') / 1_000,
  );
  await pop(pair.a, 'work', { max: 2 });
  await eventually('the queue is empty', async () => (await pop(pair.a, 'work')).length === 0);
  await pair.a.gateway.recipes.queue.metrics.count();
  expect(await pair.a.metric('postern_queue_depth', { queue: 'work' })).toBe(0);
  expect(await pair.a.metric('postern_queue_oldest_message_timestamp_seconds', { queue: 'work' })).toBe(0);
});

test('a queue that is paused is told of, until it is resumed', async () => {
  await using pair = await startPair();
  await pushBodies(pair.b, 'work', [1]);
  await pushBodies(pair.b, 'other', [1]);
  const paused = async (): Promise<number[]> => {
    await pair.b.gateway.recipes.queue.metrics.count();
    return Promise.all(['work', 'other'].map((queue) => pair.b.metric('postern_queue_paused', { queue })));
  };
  expect(await paused()).toEqual([0, 0]);
  await pair.a.expect(204, 'POST', '/v1/queues/work/pause');
  expect(await paused()).toEqual([1, 0]);
  await pair.a.expect(204, 'POST', '/v1/queues/work/resume');
  expect(await paused()).toEqual([0, 0]);
});

test('no more names than the setting allows become labels; the others are added up', async () => {
  await using pair = await startPair({ settings: { POSTERN_MAX_QUEUE_LABELS: '2' } });
  for (const name of ['q1', 'q2', 'q3', 'q4']) await pushBodies(pair.a, name, [1, 2]);
  await pair.a.gateway.recipes.queue.metrics.count();
  const values = (await pair.a.gateway.metrics.registry.getSingleMetric('postern_queue_depth')?.get())?.values ?? [];
  const labels = values.map(({ labels: { queue } }) => queue);
  expect(labels).toHaveLength(3);
  expect(labels).toContain('other');
  expect(await pair.a.metric('postern_queue_depth', { queue: 'other' })).toBe(4);
  expect(await pair.a.metric('postern_queue_depth')).toBe(8);
});

describe('labels', () => {
  async function labelled(replica: Replica): Promise<string[]> {
    await replica.gateway.recipes.queue.metrics.count();
    const values = (await replica.gateway.metrics.registry.getSingleMetric('postern_queue_depth')?.get())?.values ?? [];
    return values.map(({ labels: { queue } }) => String(queue)).sort();
  }
  const settings = { POSTERN_MAX_QUEUE_LABELS: '2' };

  test('are free again when their queues are deleted', async () => {
    await using replica = await startReplica({ settings });
    for (const name of ['junk1', 'junk2', 'junk3']) await pushBodies(replica, name, [1]);
    expect(await labelled(replica)).toHaveLength(3);
    for (const name of ['junk1', 'junk2', 'junk3'])
      await replica.expect(204, 'DELETE', `/v1/queues/${name}?force=true`);
    await pushBodies(replica, 'work', [1]);
    expect(await labelled(replica)).toEqual(['work']);
  });

  test('are free again when their queues have not been used lately', async () => {
    await using replica = await startReplica({ settings });
    for (const name of ['junk1', 'junk2', 'work']) await pushBodies(replica, name, [1]);
    expect(await labelled(replica)).toEqual(['junk1', 'junk2', 'other']);
    const { queues } = replica.gateway.recipes.queue;
    const used = queues.usedWithin(Infinity);
    vi.spyOn(queues, 'usedWithin').mockReturnValue(used.filter(({ name }) => name === 'work'));
    expect(await labelled(replica)).toEqual(['work']);
  });

  test('of one namespace leave some to the next, and stay with their queues', async () => {
    await using replica = await startReplica({ settings: { POSTERN_MAX_QUEUE_LABELS: '4' } });
    for (const name of ['a', 'b', 'c', 'd', 'e']) await pushBodies(replica, name, [1]);
    expect(await labelled(replica)).toEqual(['a', 'b', 'c', 'd', 'other']);
    for (const name of ['x', 'y', 'z'])
      await replica.expect(201, 'POST', `/v1/queues/${name}/messages`, {
        body: { messages: [{ body: 1 }] },
        headers: { namespace: 'team' },
      });
    expect(await labelled(replica)).toEqual(['a', 'b', 'other', 'team/x', 'team/y']);
    await pushBodies(replica, 'a', [1]); // used last now
    expect(await labelled(replica)).toEqual(['a', 'b', 'other', 'team/x', 'team/y']);
    expect(await replica.metric('postern_queue_depth', { queue: 'other' })).toBe(4);
  });
});
