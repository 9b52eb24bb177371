/**
 * What went wrong with kazoo's recipes, tried here: contenders that stay in line although nobody wants their turn, and
 * waits for each other. docs/regressions.md says more about each.
 */
import { expect, test } from 'vitest';
import { OPCODE } from '../../src/zookeeper/operations.js';
import { startCuttable, Witness } from '../support/scene.js';
import type { LeaseHandle, Reply } from '../support/http/client.js';
import { eventually, throughout } from '../support/eventually.js';
import { expireSession, startPair, startReplica, type Replica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';

const TTL_MS = 20_000;

/**
 * An acquire that does not wait made its node, was not first, and lost the connection before it could remove the node:
 * in its turn that blocked all.
 */
test('kazoo #429: the place of an acquire that did not want to wait goes, also when it could not be removed at once', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  // A believes the lock to be free, so that it makes a node before it looks.
  await a.hold('zombie', me);
  await a.release('zombie', me);
  await b.hold('zombie', holder);
  const cut = proxy.loseRequest(OPCODE.delete).then(() => proxy.refuse());
  const trying = a.acquire('zombie', me);
  await cut;
  expect(await witness.line('zombie')).toHaveLength(2);
  proxy.accept();
  expect((await trying).status).not.toBe(200);
  await eventually('its place is gone', async () => (await witness.line('zombie')).length === 1);
  const next = await b.createLease({ ttlMs: TTL_MS });
  const waiting = b.hold('zombie', next, { waitMs: TTL_MS });
  await b.untilWaiting('zombie', 1);
  await b.release('zombie', holder);
  await waiting;
  expect((await b.heartbeat(me)).status).toBe(200);
});

/**
 * The lock around the semaphore's own book-keeping was kept by an attempt that did not wait and got no permit: nobody
 * ever got one again.
 */
test('kazoo #430: attempts in vain leave a semaphore as it was, and the permit goes to whoever waits for it', async () => {
  await using pair = await startPair();
  const [holder, next, ...eager] = await Promise.all(
    Array.from({ length: 8 }, () => pair.a.createLease({ ttlMs: TTL_MS })),
  );
  const permit = (replica: Replica, lease: LeaseHandle | undefined, waitMs = 0): Promise<Reply> =>
    replica.call('POST', '/v1/semaphores/one/acquire', {
      body: { limit: 1, waitMs },
      leaseToken: (lease as LeaseHandle).leaseToken,
    });
  expect((await permit(pair.a, holder)).status).toBe(200);
  for (const replica of [pair.a, pair.b]) {
    const tries = await Promise.all(eager.map((lease) => permit(replica, lease)));
    expect(tries.map(({ status }) => status)).toEqual(eager.map(() => 409));
  }
  const waiting = permit(pair.b, next, TTL_MS);
  const shown = (): Promise<unknown> => pair.a.expect(200, 'GET', '/v1/semaphores/one') as Promise<unknown>;
  await eventually('it waits', async () => ((await shown()) as { waiterCount: number }).waiterCount === 1);
  // The holder dies instead of releasing; attempts in vain go on all the while.
  const tries = Promise.all(eager.map((lease) => permit(pair.a, lease)));
  await expireSession(pair.b, (holder as LeaseHandle).leaseId);
  expect((await waiting).status).toBe(200);
  await tries;
  await eventually('only that one holds', async () => {
    const { permitsHeld, waiterCount, holders } = (await shown()) as {
      permitsHeld: number;
      waiterCount: number;
      holders: { leaseId: string }[];
    };
    return permitsHeld === 1 && waiterCount === 0 && holders[0]?.leaseId === next?.leaseId;
  });
});

/** A reader took a writer that had come after it for one to wait for, and that writer waited for the reader. */
test.each(['after the reader has seen the line', 'before the reader has seen the line'])(
  'kazoo #649: a reader and a writer that comes behind it, %s, do not wait for each other when the writer before them leaves',
  async (when) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const [first, reader, second] = [
      await b.createLease({ ttlMs: TTL_MS }),
      await a.createLease({ ttlMs: TTL_MS }),
      await b.createLease({ ttlMs: TTL_MS }),
    ];
    const ask = (replica: Replica, what: string, lease: LeaseHandle, body = {}): Promise<Reply> =>
      replica.call('POST', '/v1/rwlocks/book/' + what, { body, leaseToken: lease.leaseToken });
    const untilWaiting = (count: number): Promise<unknown> =>
      eventually(`${count} wait`, async () => {
        const { waiterCount } = (await b.expect(200, 'GET', '/v1/rwlocks/book')) as { waiterCount: number };
        return waiterCount === count;
      });
    expect((await ask(b, 'acquire', first, { mode: 'write' })).status).toBe(200);
    // Its node is made, and it sees the line when it is connected again.
    if (when.startsWith('before')) void proxy.loseReply(OPCODE.multi).then(() => proxy.refuse());
    const reading = ask(a, 'acquire', reader, { mode: 'read', waitMs: TTL_MS });
    await untilWaiting(1);
    let granted = false;
    const writing = ask(b, 'acquire', second, { mode: 'write', waitMs: TTL_MS }).then((reply) => {
      granted = true;
      return reply;
    });
    await untilWaiting(2);
    proxy.heal();
    await eventually('the reader has seen it', async () => (await a.metric('postern_waiters')) === 1);
    expect((await ask(b, 'release', first)).status).toBe(204);
    expect((await reading).status).toBe(200);
    await throughout('the writer waits', () => !granted);
    expect((await ask(a, 'release', reader)).status).toBe(204);
    expect((await writing).status).toBe(200);
  },
);
