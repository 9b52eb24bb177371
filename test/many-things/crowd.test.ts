/** A thousand things in one stream: one observer for each, and a reader that is slow gets what is newest. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import { put } from '../recipes/config/client.js';
import { EventReader } from '../support/http/event-stream.js';
import { eventually } from '../support/eventually.js';
import { startPair, startReplica, type Replica } from '../support/start-gateway.js';

const THINGS = 1_000;

/** Adds to many counters, some at once. */
async function addToAll(replica: Replica, count: number): Promise<void> {
  const names = Array.from({ length: count }, (_, i) => `c${i}`);
  const work = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop())
      await replica.expect(200, 'POST', `/v1/counters/${name}/add`, { body: { by: 1 } });
  };
  await Promise.all(Array.from({ length: 20 }, work));
}

test('a thousand names cost one watch each in a replica, however many streams tell of them', async () => {
  await using pair = await startPair();
  await addToAll(pair.a, THINGS);
  const before = pair.b.gateway.context.control.watches.size;
  const streams = await Promise.all([1, 2, 3].map(() => EventReader.open(pair.b.url, '/v1/events?watch=counter:*')));
  try {
    for (const stream of streams) expect((await stream.next()).data.items).toHaveLength(THINGS);
    // Each name, and the directory.
    expect(pair.b.gateway.context.control.watches.size - before).toBe(THINGS + 1);
    await addToAll(pair.a, THINGS);
    for (const stream of streams) {
      await eventually('every change was told', () => stream.pending.length >= THINGS);
      expect(new Set(stream.pending.map(({ data }) => `${data.name} ${data.state.value}`)).size).toBe(THINGS);
      expect(stream.pending).toHaveLength(THINGS);
    }
  } finally {
    for (const stream of streams) await stream[Symbol.asyncDispose]();
  }
});

test('a reader that reads nothing for a while is not cut off, and then gets the newest state of each', async () => {
  await using replica = await startReplica();
  const keys = Array.from({ length: 20 }, (_, i) => `k${i}`);
  /** More than the system buffers on the way: 11 MB. */
  const rounds = 25;
  const asked = request(`${replica.url}/v1/events?watch=${keys.map((key) => `config:${key}`).join(',')}`);
  asked.end();
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.setEncoding('utf8').pause();
  for (let round = 1; round <= rounds; round += 1)
    await Promise.all(keys.map((key) => put(replica, key, `${round} `.padEnd(16_000))));
  const newest = new Map<string, number>();
  let text = '';
  answer.on('data', (chunk: string) => {
    const lines = (text + chunk).split('\n');
    text = lines.pop() ?? '';
    for (const [, key = '', value = ''] of lines.join('\n').matchAll(/"key":"(k\d+)".*"valueBase64":"([^"]{8})/g))
      newest.set(key, parseInt(Buffer.from(value, 'base64').toString(), 10));
  });
  answer.resume();
  await eventually(
    'the newest state of each has come',
    () => newest.size === keys.length && [...newest.values()].every((round) => round === rounds),
  );
  asked.destroy();
});
