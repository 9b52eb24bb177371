/** What was begun and not finished: it is told as what it is, and does not stay. */
import { expect, test } from 'vitest';
import { ZooKeeperError } from '../../src/zookeeper/errors.js';
import { eventually } from '../support/eventually.js';
import { startPair, startReplica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';
import { acquireDirectly, soon, startCuttable, Witness } from './scene.js';

const TTL_MS = 20_000;

test('a write that is refused because the control session is being replaced is tried again (T4)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('refused', holder);
  const waiting = pair.a.hold('refused', me, { waitMs: 20_000 });
  await pair.b.untilWaiting('refused', 1);
  const { control } = pair.a.gateway.context;
  const write = control.setData.bind(control);
  control.setData = (path) => {
    control.setData = write;
    return Promise.reject(new ZooKeeperError(-112, 'setData', path, 0));
  };
  await pair.b.release('refused', holder);
  expect((await waiting).fencingToken).toBe(await witness.holder('refused'));
});

test('a request that fails after its node was made says so, and the node does not stay as a hold (C3)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('made', holder);
  // The node is made; the listing behind it is lost, and so is everything that is tried afterwards.
  const cut = proxy.loseReply(12).then(() => proxy.refuse());
  const acquiring = acquireDirectly(a, me, 'made', { waitMs: 5_000, hardDeadline: soon(1_000) });
  await expect(acquiring).rejects.toMatchObject({ code: 'outcome-unknown' });
  await cut;
  proxy.accept();
  await eventually('its node is gone', async () => (await witness.line('made')).length === 1);
});

test('a contender that may not be read is not taken for gone (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a, b } = pair;
  const [holder, between, me] = [
    await a.createLease({ ttlMs: TTL_MS }),
    await b.createLease({ ttlMs: TTL_MS }),
    await a.createLease({ ttlMs: TTL_MS }),
  ];
  await a.hold('closed', holder);
  const stranger = await witness.standIn('closed');
  const gone = new AbortController();
  const left = b.acquire('closed', between, { waitMs: 20_000 }, { signal: gone.signal }).catch(() => 'left');
  await a.untilWaiting('closed', 2);
  const waiting = a.acquire('closed', me, { waitMs: 3_000 });
  await a.untilWaiting('closed', 3);
  await a.release('closed', holder);
  // The stranger holds now, and lets nobody read its node.
  await witness.control.setAcl(stranger, [{ permission: 31, id: { scheme: 'digest', id: 'stranger:x' } }]);
  gone.abort();
  await left;
  expect((await waiting).status).not.toBe(200);
});
