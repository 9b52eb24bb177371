/** What a replica keeps of the data of a transaction for each request that waits for its decision. */
import { expect, test } from 'vitest';
import { startReplica, type Replica } from '../../../support/start-gateway.js';
import { eventually } from '../../../support/eventually.js';
import { scaled } from '../../../support/timing.js';
import { memoryInUse } from '../../../support/usage.js';
import { abort, begin, show } from '../client.js';

const REQUESTS = 100;
const KIB = 1_024;
/** 16 000 characters, 350 KB as objects. */
const OBJECTS = { x: Array.from({ length: 5_300 }, () => ({})) };
const TEXT = { x: 'y'.repeat(JSON.stringify(OBJECTS).length - 8) };

test('its text, and not the objects that it is parsed into', { timeout: scaled(60_000) }, async () => {
  await using replica = await startReplica();
  const ids: string[] = [];
  const waiting: Promise<unknown>[] = [];
  const bytesOf = async (data: object): Promise<number> => {
    const id = await begin(replica, ['a', 'b'], { data });
    ids.push(id);
    const { headers } = await replica.call('GET', `/v1/transactions/${id}`);
    const before = memoryInUse().heapUsed;
    for (let i = 0; i < REQUESTS; i += 1)
      waiting.push(
        replica.call('GET', `/v1/transactions/${id}?waitMs=50000`, {
          headers: { 'If-None-Match': String(headers['etag']) },
        }),
      );
    await eventually('all wait', async () => (await requestsInFlight(replica)) === waiting.length + 1);
    return (memoryInUse().heapUsed - before) / REQUESTS;
  };
  await bytesOf(TEXT); // what is kept of the first ones is kept once
  const ofText = await bytesOf(TEXT);
  const ofObjects = await bytesOf(OBJECTS);
  expect(ofObjects - ofText).toBeLessThan(60 * KIB);
  expect((await show(replica, ids[2] as string)).data).toEqual(OBJECTS);
  for (const id of ids) await abort(replica, id);
  await Promise.all(waiting);
});

/** The one that asks included. */
async function requestsInFlight(replica: Replica): Promise<number> {
  const page = String(await replica.expect(200, 'GET', '/metrics'));
  return Number(/^postern_http_requests_in_flight (\d+)$/m.exec(page)?.[1] ?? -1);
}
