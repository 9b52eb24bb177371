/** Places whose client has left, or was told nothing, while ZooKeeper could not be asked: nobody waits behind them. */
import { expect, test } from 'vitest';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import { acquire } from '../../../../src/recipes/line/acquire.js';
import { eventually } from '../../../support/eventually.js';
import { startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { acquireDirectly, leaseBehind, PRESENT, soon, startCuttable, Witness } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 60_000;
const WAIT_MS = 50_000;
/** A sequential create, and that with its directory. */
const CREATES = [OPCODE.create, OPCODE.multi];

test.each([true, false])(
  'a place that nobody was told of is no hold, and is passed over (keepPlace: %s; C3)',
  { timeout: scaled(60_000) },
  async (keepPlace) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    await using witness = await Witness.start(root);
    const { replica: a, proxy } = cuttable;
    const [me, other] = [await a.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
    await b.hold('door', other);
    await b.release('door', other);
    const cut = proxy.loseReply(...CREATES).then(() => proxy.refuse());
    const acquiring = acquireDirectly(a, me, 'door', {
      waitMs: WAIT_MS,
      keepPlace,
      requestId: 'r1',
      hardDeadline: soon(scaled(3_000)),
    });
    await expect(acquiring).rejects.toMatchObject({ code: 'outcome-unknown' });
    await cut;
    expect(await witness.holder('door')).toBeDefined();
    proxy.accept();
    await eventually('it is no hold', async () => (await witness.holder('door')) === undefined);
    expect((await b.acquire('door', other, { waitMs: WAIT_MS })).body).toMatchObject({ held: true });
    await eventually('all is done', () => a.gateway.context.cleanup.pending === 0);
    await b.release('door', other);
    // Its client may come back for it as long as it is there, and is no duplicate of itself.
    expect((await b.acquire('door', me, { requestId: 'r1' })).body).toMatchObject({ held: true });
    expect(await witness.line('door')).toHaveLength(1);
  },
);

test('the end of a wait is written down when ZooKeeper answers again (C3)', { timeout: scaled(60_000) }, async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [me, holder] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('door', holder);
  const gone = new AbortController();
  const waiting = a.acquire('door', me, { waitMs: WAIT_MS, keepPlace: true }, { signal: gone.signal });
  const left = waiting.catch(() => 'left');
  await b.untilWaiting('door', 1);
  await eventually('it waits at A', async () => (await a.metric('postern_waiters')) === 1);
  proxy.suspend();
  gone.abort();
  expect(await left).toBe('left');
  await eventually('it is to be done later', () => a.gateway.context.cleanup.pending === 1);
  proxy.heal();
  const announced = async (): Promise<number> => (await witness.line('door'))[1]?.record?.waitUntil ?? NaN;
  await eventually('nobody waits there any more', async () => (await announced()) <= Date.now());
});

test('a wait in vain is answered as such, though the reply to the removal of its place is lost', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [me, holder] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('door', holder);
  const lost = proxy.loseReply(OPCODE.delete);
  const waiting = a.acquire('door', me, { waitMs: 500 });
  await lost;
  expect((await waiting).body).toMatchObject({ status: 409, code: 'lock-held' });
  expect(await witness.line('door')).toHaveLength(1);
});

test('a place whose lease could not be ended with it goes all the same', async () => {
  const root = freshRoot();
  await using a = await startReplica({ root });
  await using witness = await Witness.start(root);
  const [me, holder] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  await a.hold('door', holder);
  const lease = await leaseBehind(a, me);
  const refused = acquire(a.gateway.context, 'lock', witness.directory('door'), {
    mode: 'exclusive',
    lease,
    name: 'door',
    requestId: '',
    guids: { own: lease.guid('lock', 'door', ''), shared: undefined, create: 'own' },
    waitMs: 100,
    keepPlace: false,
    data: undefined,
    lockDelayMs: 0,
    endLease: () => Promise.resolve(false),
    receivedAt: performance.now(),
    hardDeadline: soon(),
    requester: PRESENT,
  });
  await expect(refused).rejects.toMatchObject({ code: 'outcome-unknown' });
  await eventually('only the holder stands there', async () => (await witness.line('door')).length === 1);
});
