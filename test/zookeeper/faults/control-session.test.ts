/** The replica's own session is lost: its watches are set again, and whoever waited goes on. */
import { expect, test } from 'vitest';
import { eventually } from '../../support/eventually.js';
import { startReplica } from '../../support/start-gateway.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { startTcpProxy } from '../../support/zookeeper/tcp-proxy.js';
import { scaled } from '../../support/timing.js';
import { controlIn } from '../../support/zookeeper/sessions.js';
import { keptAlive, soon, startCuttable, Witness } from '../../support/scene.js';

const WATCHES = 20_000;
const PER_TRANSACTION = 500;

test(
  'the watches of twenty thousand waiters are set again after a lost connection (T3)',
  { timeout: scaled(90_000) },
  async () => {
    const root = freshRoot();
    await using proxy = await startTcpProxy({ port: Number(sharedZooKeeper().split(':')[1]) });
    await using writer = await controlIn(sharedZooKeeper(), root, { sessionTimeoutMs: 20_000 });
    await using watcher = await controlIn(proxy.connectString, root, { sessionTimeoutMs: 20_000 });
    const paths = Array.from(
      { length: WATCHES },
      (_, i) => `/waiter-with-a-name-as-long-as-that-of-a-contender-in-line-${i}`,
    );
    for (let i = 0; i < WATCHES; i += PER_TRANSACTION) {
      const some = paths.slice(i, i + PER_TRANSACTION);
      await writer.multi(
        some.map((path) => ({ type: 'create', path, mode: 'ephemeral' })),
        soon(scaled(30_000)),
      );
    }
    const woken = new Set<string>();
    await Promise.all(
      paths.map((path) =>
        watcher.watches.getChildren(path, ({ type }) => type === 'deleted' && woken.add(path), soon(scaled(30_000))),
      ),
    );
    const first = watcher.sessionId;
    proxy.cut();
    await writer.delete(paths[0] as string); // what happens meanwhile is told afterwards
    await eventually('it is connected again', () => watcher.connected && woken.has(paths[0] as string));
    for (const path of [paths[1], paths[WATCHES / 2], paths[WATCHES - 1]]) await writer.delete(path as string);
    await eventually('the others are told as it happens', () => woken.size === 4);
    expect(watcher.sessionId).toBe(first);
    // So that the end of the sessions does not wake twenty thousand.
    for (let i = 0; i < WATCHES; i += PER_TRANSACTION) {
      const some = paths.slice(i, i + PER_TRANSACTION).filter((path) => !woken.has(path));
      await writer.multi(
        some.map((path) => ({ type: 'delete', path })),
        soon(scaled(30_000)),
      );
    }
  },
);

test(
  'requests go on waiting when the control session is replaced, and miss nothing (T4)',
  { timeout: scaled(60_000) },
  async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root, controlSessionTimeoutMs: 2_000 });
    await using b = await startReplica({ root });
    await using witness = await Witness.start(root);
    const { replica: a, proxy } = cuttable;
    const leases = await Promise.all([0, 1, 2, 3].map(() => b.createLease({ ttlMs: 8_000 })));
    const [first, second, third, fourth] = leases as [
      (typeof leases)[0],
      (typeof leases)[0],
      (typeof leases)[0],
      (typeof leases)[0],
    ];
    await using _alive = keptAlive(b, leases, 8_000);
    await b.hold('during', first);
    await b.hold('after', third);
    const duringOutage = a.hold('during', second, { waitMs: 40_000 });
    const afterOutage = a.hold('after', fourth, { waitMs: 40_000 });
    await b.untilWaiting('during', 1);
    await b.untilWaiting('after', 1);
    await eventually('both wait at A', async () => (await a.metric('postern_waiters')) === 2);
    const { control } = a.gateway.context;
    const session = control.sessionId;
    proxy.suspend();
    await b.release('during', first); // nobody tells A
    await eventually('the session is given up', () => control.sessionId !== session);
    proxy.heal();
    expect((await duringOutage).fencingToken).toBe(await witness.holder('during'));
    await b.release('after', third);
    expect((await afterOutage).fencingToken).toBe(await witness.holder('after'));
  },
);

test('a place that could not be given up is given up as soon as ZooKeeper is back (T4)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root, settings: { POSTERN_REQUEST_TIMEOUT_MS: '1500' } });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: 20_000 }), await b.createLease({ ttlMs: 20_000 })];
  await b.hold('kept', holder);
  const waiting = a.acquire('kept', me, { waitMs: 3_000 });
  await b.untilWaiting('kept', 1);
  proxy.suspend();
  expect((await waiting).body).toMatchObject({ status: 503, code: 'outcome-unknown' });
  expect(await witness.line('kept')).toHaveLength(2);
  proxy.heal();
  await eventually('the place is given up', async () => (await witness.line('kept')).length === 1);
  expect((await b.heartbeat(me)).status).toBe(200);
});
