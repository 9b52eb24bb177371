/** What is shown of a line that changes between one request to ZooKeeper and the next. */
import { expect, test } from 'vitest';
import { EventReader } from '../../../support/http/event-stream.js';
import { startPair, type Pair } from '../../../support/start-gateway.js';

interface Shown {
  holders: unknown[];
  holderCount: number;
  permitsHeld?: number;
  waiters: unknown[];
  waiterCount: number;
}

/** Lets `meanwhile` happen each time when replica a has listed a line and is about to read who stands in it. */
function beforeContenders({ a }: Pair, meanwhile: () => Promise<unknown>): void {
  const { control } = a.gateway.context;
  const multiRead = control.multiRead.bind(control);
  const getChildren = control.getChildren.bind(control);
  let listed: Promise<unknown> | undefined;
  control.getChildren = async (...list) => {
    listed = undefined;
    return getChildren(...list);
  };
  control.multiRead = async (reads, ...rest) => {
    if (reads.some(({ path }) => path.includes('_c_'))) await (listed ??= meanwhile());
    return multiRead(reads, ...rest);
  };
}

test.each([
  ['locks', {}],
  ['rwlocks', { mode: 'read' }],
  ['semaphores', { limit: 3 }],
])('of %s the counts are of those who are shown, also when each look at them finds one less', async (kind, body) => {
  await using pair = await startPair();
  const path = `/v1/${kind}/leaving`;
  const leases = await Promise.all(Array.from({ length: 5 }, () => pair.b.createLease({ ttlMs: 20_000 })));
  for (const { leaseToken } of leases) {
    const request = { body: { ...body, keepPlace: true }, leaseToken };
    expect((await pair.b.call('POST', `${path}/acquire`, request)).status).toBeLessThan(300);
  }
  beforeContenders(pair, async () => {
    const lease = leases.pop();
    if (lease !== undefined) await pair.b.endLease(lease);
  });
  for (let left = leases.length; left > 0; left = leases.length) {
    for (const query of ['', '?consistency=stale']) {
      const { holders, holderCount, waiters, waiterCount, permitsHeld } = (await pair.a.expect(
        200,
        'GET',
        `${path}${query}`,
      )) as unknown as Shown;
      expect([holderCount, waiterCount]).toEqual([holders.length, waiters.length]);
      if (kind === 'semaphores') expect(permitsHeld).toBe(holderCount);
    }
  }
});

test.each(['long poll', 'stream'])(
  'a %s of a semaphore that nobody has used sees its limit, set while it begins to watch',
  async (how) => {
    await using pair = await startPair();
    const path = '/v1/semaphores/unused';
    const { headers } = await pair.a.call('GET', path);
    const { watches } = pair.a.gateway.context.control;
    const getData = watches.getData.bind(watches);
    let set = false;
    watches.getData = async (...watch) => {
      const read = await getData(...watch);
      if (!set) {
        set = true;
        await pair.b.expect(200, 'PUT', path, { body: { limit: 4 } });
        await pair.a.gateway.context.control.sync(watch[0]);
      }
      return read;
    };
    if (how === 'long poll') {
      const poll = await pair.a.call('GET', `${path}?waitMs=5000`, {
        headers: { 'if-none-match': String(headers['etag']) },
      });
      expect(poll.status).toBe(200);
      expect(poll.body).toMatchObject({ limit: 4 });
      return;
    }
    await using events = await EventReader.open(pair.a.url, `${path}/events`);
    expect(await events.next()).toMatchObject({ event: 'state', data: { limit: 4 } });
  },
);
