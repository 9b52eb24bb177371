/**
 * A request that waits at one replica while its place is given up at the other one. The others of its replica see the
 * node go, and strike it from the line that they share; the request itself learns it only at its next heartbeat. Until
 * then it must not decide anything for them.
 */
import { expect, test } from 'vitest';
import type { Held, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';

const TTL_MS = 60_000;

function acquire(replica: Replica, lease: LeaseHandle, body: Record<string, unknown>): Promise<Reply> {
  return replica.call('POST', '/v1/rwlocks/book/acquire', { body, leaseToken: lease.leaseToken });
}

function release(replica: Replica, lease: LeaseHandle, body: Record<string, unknown> = {}): Promise<Reply> {
  return replica.call('POST', '/v1/rwlocks/book/release', { body, leaseToken: lease.leaseToken });
}

async function waiterCount(replica: Replica): Promise<number> {
  return ((await replica.expect(200, 'GET', '/v1/rwlocks/book')) as { waiterCount: number }).waiterCount;
}

test('a writer that was taken out of line elsewhere lets no later writer in beside a reader (T13)', async () => {
  await using pair = await startPair();
  const [first, early, unaware, late, last] = (await Promise.all(
    [1, 2, 3, 4, 5].map(() => pair.a.createLease({ ttlMs: TTL_MS })),
  )) as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
  const reader = (await acquire(pair.a, first, { mode: 'read' })).body as Held;
  const before = await pair.a.metric('postern_watches');
  const waits: Promise<Reply>[] = [];
  for (const [i, [lease, mode, watches]] of (
    [
      [early, 'write', 1],
      [unaware, 'write', 1], // the request before it tells it
      [late, 'read', 2],
      [last, 'write', 3],
    ] as const
  ).entries()) {
    waits.push(acquire(pair.a, lease, { mode, waitMs: 20_000 }));
    await eventually(
      `${i + 1} wait, each for those before it`,
      // The replica itself may begin to watch something at any time.
      async () => (await pair.a.metric('postern_watches')) >= before + watches && (await waiterCount(pair.b)) === i + 1,
    );
  }
  let wrote: Reply | undefined;
  const writing = (waits[3] as Promise<Reply>).then((reply) => (wrote = reply));

  // The node of the one that is unaware goes, and the others strike it; then the writer before it gives up.
  expect((await release(pair.b, unaware)).status).toBe(204);
  expect((await release(pair.b, early)).status).toBe(204);
  const shared = (await (waits[2] as Promise<Reply>)).body as Held;
  await release(pair.a, late, { holdId: shared.holdId });
  await throughout('the writer waits while the first reader holds', () => wrote === undefined);
  expect((await release(pair.b, first, { holdId: reader.holdId })).status).toBe(204);
  expect((await writing).status).toBe(200);
  expect((await release(pair.a, last)).status).toBe(204);
  expect((await Promise.all(waits.slice(0, 2))).map(({ status }) => status)).toEqual([409, 409]);
});
