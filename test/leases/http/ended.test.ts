/**
 * A lease that somebody ends: whoever waits or streams under it hears of it at once, long before its next heartbeat is
 * due.
 */
import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../support/http/client.js';
import { EventReader } from '../../support/http/event-stream.js';
import { startPair, type Pair, type Replica } from '../../support/start-gateway.js';
import { scaled } from '../../support/timing.js';
import { enter, untilMembers } from '../../recipes/double-barrier/client.js';
import { configure, queueOf } from '../../recipes/queue/client.js';

/** The first heartbeat of a wait is due after 20 s: long after what is called a second here, on a busy machine. */
const TTL_MS = 60_000;
const WAIT_MS = 30_000;
const SOON_MS = scaled(3_000);

const ENDINGS: [string, (replica: Replica, lease: LeaseHandle) => Promise<Reply>][] = [
  ['an administrator', (replica, { leaseId }) => replica.call('DELETE', `/v1/leases/${leaseId}`)],
  ['its own client', (replica, lease) => replica.endLease(lease)],
];

/** It is waited at the first replica. */
const WHERE: [string, (pair: Pair, lease: LeaseHandle) => Replica | Promise<Replica>][] = [
  ['the same replica', ({ a }) => a],
  ['the other replica', ({ b }) => b],
  [
    'the other replica, where it has been heartbeated',
    async ({ b }, lease) => {
      expect((await b.heartbeat(lease)).status).toBe(200);
      return b;
    },
  ],
];

interface Waiting {
  /** Sends the request that waits through the first replica. */
  begin: (pair: Pair, lease: LeaseHandle) => Promise<Reply>;
  isWaiting: (pair: Pair) => Promise<unknown>;
}

const WAITS: [string, Waiting][] = [
  [
    'an acquire',
    {
      begin: async ({ a, b }, lease) => {
        await b.hold('taken', await b.createLease({ ttlMs: TTL_MS }));
        return a.acquire('taken', lease, { waitMs: WAIT_MS });
      },
      isWaiting: ({ b }) => b.untilWaiting('taken', 1),
    },
  ],
  [
    'a claim',
    {
      begin: async ({ a }, lease) => {
        await configure(a, 'empty');
        return a.call('POST', '/v1/queues/empty/claim', { leaseToken: lease.leaseToken, body: { waitMs: WAIT_MS } });
      },
      isWaiting: ({ b }) => eventually('it waits', async () => (await queueOf(b, 'empty')).consumersWaiting === 1),
    },
  ],
  [
    'who enters a double barrier',
    {
      begin: ({ a }, lease) => enter(a, 'start', lease, { size: 2, waitMs: WAIT_MS }),
      isWaiting: ({ b }) => untilMembers(b, 'start', 1),
    },
  ],
];

async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let result: { value: T } | undefined;
  const settled = promise.then((value) => (result = { value }));
  await eventually(what, () => result !== undefined, { withinMs: ms });
  return (await settled).value;
}

describe.each(ENDINGS)('a lease that is ended by %s', (_, end) => {
  it.each(WHERE)('ends its event stream within a second, through %s', async (_where, place) => {
    await using pair = await startPair();
    const lease = await pair.b.createLease({ ttlMs: TTL_MS });
    await using events = await EventReader.open(pair.a.url, '/v1/leases/self/events', lease);
    expect((await events.next()).event).toBe('state');
    expect((await end(await place(pair, lease), lease)).status).toBe(204);
    expect((await events.next(SOON_MS)).event).toBe('expired');
  });

  describe.each(WAITS)('while %s waits', (_what, { begin, isWaiting }) => {
    it.each(WHERE)('is a 410 within a second, through %s', async (_where, place) => {
      await using pair = await startPair();
      const lease = await pair.b.createLease({ ttlMs: TTL_MS });
      const waiting = begin(pair, lease);
      await isWaiting(pair);
      expect((await end(await place(pair, lease), lease)).status).toBe(204);
      expect(await within(SOON_MS, 'it is answered', waiting)).toMatchObject({
        status: 410,
        body: { code: 'lease-expired' },
      });
    });
  });
});
