/**
 * Places that nobody asks for any more, and places that somebody may still come back for: who may remove which.
 *
 * A kept place may stand in line for as long as its lease lives. Only where it is admitted and says `waiting`, 5 s
 * after the end of the wait that it announced, does it block others, and only there is it removed (protocol C3).
 */
import { describe, expect, test } from 'vitest';
import type { Held, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 30_000;
/** Longer than a place is left alone after the end of its wait. */
const OVERDUE_MS = 6_000;
const TIMEOUT = { timeout: scaled(60_000) };

interface Shown {
  holders: { leaseId: string }[];
  waiters: { leaseId: string }[];
}

function acquire(replica: Replica, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', '/v1/rwlocks/book/acquire', { body, leaseToken: lease.leaseToken });
}

function release(replica: Replica, lease: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', '/v1/rwlocks/book/release', { body, leaseToken: lease.leaseToken });
}

function show(replica: Replica): Promise<Shown> {
  return replica.expect(200, 'GET', '/v1/rwlocks/book') as Promise<Shown>;
}

function leases(pair: Pair, count: number): Promise<LeaseHandle[]> {
  return Promise.all(Array.from({ length: count }, () => pair.a.createLease({ ttlMs: TTL_MS })));
}

describe('a place that is kept in line', () => {
  test(
    'is not removed by one who does not wait, as long as somebody else holds; who holds is what that one is told (C3)',
    TIMEOUT,
    async () => {
      await using pair = await startPair();
      const [holder, absent, hasty] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
      await pair.a.hold('kept', holder);
      expect((await pair.a.acquire('kept', absent, { keepPlace: true })).status).toBe(202);
      await throughout(
        'the place is kept, and the newcomer is told who holds',
        async () => {
          const refused = await pair.b.acquire('kept', hasty);
          const { waiterCount } = (await pair.b.showLock('kept')) as { waiterCount: number };
          return (
            (refused.body as { holder: { leaseId: string } }).holder.leaseId === holder.leaseId && waiterCount === 1
          );
        },
        { forMs: OVERDUE_MS, everyMs: 250 },
      );
      await pair.b.release('kept', holder);
      expect((await pair.b.acquire('kept', absent)).body).toMatchObject({ held: true });
    },
  );

  test(
    'for writing is not removed by readers who do not wait, as long as another reader holds (C3)',
    TIMEOUT,
    async () => {
      await using pair = await startPair();
      const [reader, absent, hasty] = (await leases(pair, 3)) as [LeaseHandle, LeaseHandle, LeaseHandle];
      expect((await acquire(pair.a, reader, { mode: 'read' })).status).toBe(200);
      expect((await acquire(pair.a, absent, { mode: 'write', keepPlace: true })).status).toBe(202);
      await throughout(
        'the place is kept, and the newcomer is told who holds',
        async () => {
          const refused = await acquire(pair.b, hasty, { mode: 'read' });
          const { waiters } = await show(pair.b);
          return (
            (refused.body as { holder: { leaseId: string } }).holder.leaseId === reader.leaseId && waiters.length === 1
          );
        },
        { forMs: OVERDUE_MS, everyMs: 250 },
      );
      await release(pair.b, reader);
      expect((await acquire(pair.b, absent, { mode: 'write' })).body).toMatchObject({ held: true });
    },
  );

  test(
    'for reading and never asked for again is removed when its turn has come, also while other readers hold (C3)',
    TIMEOUT,
    async () => {
      await using pair = await startPair();
      const [first, reader, absent, writer] = (await leases(pair, 4)) as [
        LeaseHandle,
        LeaseHandle,
        LeaseHandle,
        LeaseHandle,
      ];
      const { holdId } = (await acquire(pair.a, first, { mode: 'write' })).body as Held;
      const reading = acquire(pair.a, reader, { mode: 'read', waitMs: 20_000 });
      await eventually('the reader waits', async () => (await show(pair.b)).waiters.length === 1);
      expect((await acquire(pair.a, absent, { mode: 'read', keepPlace: true })).status).toBe(202);
      expect((await release(pair.a, first, { holdId })).status).toBe(204);
      expect((await reading).status).toBe(200);
      const writing = acquire(pair.b, writer, { mode: 'write', waitMs: 40_000 });
      await eventually(
        'only the writer waits, behind the reader that holds',
        async () => {
          const { holders, waiters } = await show(pair.a);
          expect(holders.map(({ leaseId }) => leaseId)).toEqual([reader.leaseId]);
          return waiters.length === 1 && waiters[0]?.leaseId === writer.leaseId;
        },
        { withinMs: scaled(20_000) },
      );
      expect((await release(pair.a, reader)).status).toBe(204);
      expect((await writing).status).toBe(200);
    },
  );
});

describe('a requestId that is used again in another mode', () => {
  for (const keepPlace of [false, true]) {
    test(`is refused and leaves no second place behind, keepPlace ${keepPlace} (C6)`, async () => {
      await using pair = await startPair();
      const [mine, other] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
      expect((await acquire(pair.a, mine, { mode: 'read', requestId: 'r' })).status).toBe(200);
      const refused = await acquire(pair.b, mine, { mode: 'write', requestId: 'r', keepPlace, waitMs: 5_000 });
      expect(refused.body).toMatchObject({ code: 'conflict' });
      const { holders, waiters } = await show(pair.b);
      expect(holders.map(({ leaseId }) => leaseId)).toEqual([mine.leaseId]);
      expect(waiters).toEqual([]);
      expect((await acquire(pair.b, other, { mode: 'read' })).status).toBe(200);
    });
  }
});

test.each([{}, { priority: 1 }])(
  'who goes while it is looked whether its place is abandoned is in nobody’s way: %o',
  async (asked) => {
    await using pair = await startPair();
    const [holder, hasty] = (await leases(pair, 2)) as [LeaseHandle, LeaseHandle];
    await pair.b.hold('left', holder, asked);
    const { control } = pair.a.gateway.context;
    const read = control.getData.bind(control);
    let looks = 0;
    control.getData = async (path, ...rest) => {
      if (path.includes('/locks/left/') && (looks += 1) === 1) await pair.b.release('left', holder);
      return read(path, ...rest);
    };
    expect((await pair.a.acquire('left', hasty, asked)).status).toBe(200);
    expect(looks).toBeGreaterThan(0);
  },
);
