/** A batch of claims of which one cannot be made. */
import { afterEach, expect, test, vi } from 'vitest';
import { ZooKeeperClient } from '../../../src/zookeeper/client.js';
import { LeaseSession } from '../../../src/zookeeper/lease-session.js';
import { startPair } from '../../support/start-gateway.js';
import { bodiesOf, claim, pushBodies } from './client.js';

afterEach(() => {
  vi.restoreAllMocks();
});

test('the others of a batch are claimed without a message that has gone meanwhile, in one more transaction (T8)', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', [1, 2, 3]);
  const lease = await pair.a.createLease();
  // The real one, counted; before the first of them the second message is deleted.
  const batches: number[] = [];
  vi.spyOn(LeaseSession.prototype, 'multi').mockImplementation(async function (this: LeaseSession, items, deadline) {
    const claims = items.filter(({ type, path }) => type === 'create' && path.endsWith('/c'));
    batches.push(claims.length);
    if (batches.length === 1) await this.delete((claims[1]?.path ?? '').replace(/\/c$/, ''));
    return ZooKeeperClient.prototype.multi.call(this, items, deadline);
  });
  expect(bodiesOf(await claim(pair.a, 'work', lease, { max: 3 }))).toEqual([1, 3]);
  expect(batches).toEqual([3, 2]);
});
