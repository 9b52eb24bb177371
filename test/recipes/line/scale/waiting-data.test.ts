/** What a replica keeps of the data of requests that wait. */
import { expect, test } from 'vitest';
import { startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { memoryInUse } from '../../../support/usage.js';

const REQUESTS = 200;
const KIB = 1_024;
const OBJECTS = { x: Array.from({ length: 1_300 }, () => ({})) };
const TEXT = { x: 'y'.repeat(JSON.stringify(OBJECTS).length) };

test('its text, and not the objects that it is parsed into', { timeout: scaled(60_000) }, async () => {
  await using replica = await startReplica();
  const [holder, waiter] = [await replica.createLease({ ttlMs: 60_000 }), await replica.createLease({ ttlMs: 60_000 })];
  const waiting: Promise<unknown>[] = [];
  const bytesOf = async (name: string, data: object): Promise<number> => {
    await replica.hold(name, holder);
    const before = memoryInUse().heapUsed;
    for (let i = 0; i < REQUESTS; i += 1)
      waiting.push(replica.acquire(name, waiter, { requestId: String(i), waitMs: 50_000, data }));
    await replica.untilWaiting(name, REQUESTS);
    return (memoryInUse().heapUsed - before) / REQUESTS;
  };
  await bytesOf('first', TEXT); // what is kept of the first ones is kept once
  const ofText = await bytesOf('text', TEXT);
  const ofObjects = await bytesOf('objects', OBJECTS);
  expect(ofObjects - ofText).toBeLessThan(20 * KIB);
  await replica.call('DELETE', '/v1/leases/self', { leaseToken: waiter.leaseToken });
  await Promise.all(waiting);
});

test('and shows them all the same, also after a repeated request that has none', async () => {
  await using replica = await startReplica();
  const [holder, waiter] = [await replica.createLease(), await replica.createLease()];
  const { holdId } = await replica.hold('kept', holder);
  const asked = { requestId: 'again', keepPlace: true };
  expect((await replica.acquire('kept', waiter, { ...asked, waitMs: 1, data: OBJECTS })).status).toBe(202);
  const granted = replica.acquire('kept', waiter, { ...asked, waitMs: 20_000 });
  await replica.release('kept', holder, { holdId });
  expect((await granted).status).toBe(200);
  expect(await replica.showLock('kept')).toMatchObject({ holders: [{ leaseId: waiter.leaseId, data: OBJECTS }] });
});
