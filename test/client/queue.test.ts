/** What a worker has claimed and does not hand out is given back, although its lease lives on. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { Postern } from '../../src/client/index.js';
import { eventually } from '../support/eventually.js';
import { startPair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { startTcpProxy } from '../support/zookeeper/tcp-proxy.js';

/** Longer than the test: that a lease has ended must not be what gives a message back. */
const TTL_MS = scaled(60_000);

test('a message that is claimed while the signal of the worker aborts is given back', { timeout: TTL_MS }, async () => {
  await using pair = await startPair();
  const proxy = await startTcpProxy({ port: Number(new URL(pair.a.url).port), framed: false });
  await using postern = new Postern({ urls: [`http://${proxy.connectString}`], ttlMs: TTL_MS });
  const name = randomUUID();
  const is = async (depth: number, claimed: number): Promise<boolean> => {
    const now = await pair.b.expect(200, 'GET', `/v1/queues/${name}`);
    return now.depth === depth && now.claimed === claimed;
  };
  await postern.queue(name).push('before');
  const enough = new AbortController();
  const handed: unknown[] = [];
  const working = (async () => {
    for await (const job of postern.queue(name).jobs({ signal: enough.signal })) {
      handed.push(job.body);
      await job.ack();
    }
  })();
  await eventually('it has had the first', () => is(0, 0));
  proxy.pause('fromZooKeeper'); // the answer of the gateway, here
  await pair.b.expect(201, 'POST', `/v1/queues/${name}/messages`, { body: { messages: [{ body: 'late' }] } });
  await eventually('it is claimed', () => is(1, 1));
  enough.abort(new Error('enough'));
  await working;
  proxy.heal();
  await eventually('it is given back', () => is(1, 0));
  expect(handed).toEqual(['before']);
  await proxy.stop();
});

test(
  'a worker of several queues gets from the first that has something, and settles there',
  { timeout: TTL_MS },
  async () => {
    await using pair = await startPair();
    await using postern = new Postern({ urls: [pair.a.url], ttlMs: TTL_MS });
    const [high, low] = [randomUUID(), randomUUID()];
    await postern.queue(low).pushAll(['1', '2'].map((body) => ({ body })));
    await postern.queue(high).push('first');
    const handed: [string, unknown][] = [];
    for await (const job of postern.queues([high, low]).jobs()) {
      handed.push([job.name, job.body]);
      await job.ack();
      if (handed.length === 2) await postern.queue(high).push('before the last');
      if (handed.length === 4) break;
    }
    expect(handed).toEqual([
      [high, 'first'],
      [low, '1'],
      [high, 'before the last'],
      [low, '2'],
    ]);
    for (const name of [high, low]) expect(await postern.queue(name).show()).toMatchObject({ depth: 0 });
  },
);

test('what was claimed and not handed out when the signal aborted is given back', { timeout: TTL_MS }, async () => {
  await using pair = await startPair();
  await using postern = new Postern({ urls: [pair.a.url], ttlMs: TTL_MS });
  const queue = postern.queue(randomUUID());
  await queue.pushAll(['1', '2', '3'].map((body) => ({ body })));
  const enough = new AbortController();
  const handed: unknown[] = [];
  for await (const job of queue.jobs({ concurrency: 3, signal: enough.signal })) {
    handed.push(job.body);
    enough.abort();
    await job.ack();
  }
  expect(handed).toEqual(['1']);
  expect(await queue.show()).toMatchObject({ depth: 2, claimed: 0 });
});
