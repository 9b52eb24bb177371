/** What was begun and not finished: it is told as what it is, and does not stay. */
import { expect, test } from 'vitest';
import { sortLine } from '../../../../src/recipes/line/contender.js';
import { endLease } from '../../../../src/recipes/line/delay/end-lease.js';
import { revoke } from '../../../../src/recipes/line/revocation/revocation.js';
import { NoReplyError, ZooKeeperError } from '../../../../src/zookeeper/errors.js';
import { eventually } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { acquireDirectly, leaseBehind, PRESENT, soon, startCuttable, Witness } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';
import { setAcl } from '../../../support/zookeeper/instruments.js';

const TTL_MS = 20_000;

test('a write that is refused because the control session is being replaced is tried again (T4)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('refused', holder);
  const waiting = pair.a.hold('refused', me, { waitMs: 20_000 });
  await pair.b.untilWaiting('refused', 1);
  const { control } = pair.a.gateway.context;
  const multi = control.multi.bind(control);
  let refused = 0;
  control.multi = () => {
    control.multi = multi;
    refused += 1;
    return Promise.reject(new ZooKeeperError(-112, 'multi', '', 0));
  };
  await pair.b.release('refused', holder);
  expect((await waiting).fencingToken).toBe(await witness.holder('refused'));
  expect(refused).toBe(1);
});

test('a grant whose reply is lost is found, though the first look for it is lost too (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('looked-for', holder);
  const waiting = pair.a.hold('looked-for', me, { waitMs: 20_000 });
  await pair.b.untilWaiting('looked-for', 1);
  const { control } = pair.a.gateway.context;
  const [multi, sync] = [control.multi.bind(control), control.sync.bind(control)];
  let looks = 0;
  control.multi = async (operations, until) => {
    control.multi = multi;
    const place = operations.find(({ type }) => type === 'setData')?.path;
    control.sync = (path, deadline) => {
      if (path !== place) return sync(path, deadline);
      control.sync = sync;
      looks += 1;
      return Promise.reject(new NoReplyError('sync', 'connection-lost', false));
    };
    await multi(operations, until);
    throw new NoReplyError('multi', 'connection-lost', true);
  };
  await pair.b.release('looked-for', holder);
  expect((await waiting).fencingToken).toBe(await witness.holder('looked-for'));
  expect(looks).toBe(1);
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
  const acquiring = acquireDirectly(a, me, 'made', { waitMs: 5_000, hardDeadline: soon(scaled(1_000)) });
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
  await witness.control.submit(setAcl(stranger, [{ permission: 31, id: { scheme: 'digest', id: 'stranger:x' } }]));
  gone.abort();
  await left;
  expect((await waiting).status).not.toBe(200);
});

test('the end of a lease that has released one hold and cannot read another says that it may be done (C16)', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  await using witness = await Witness.start(root);
  const handle = await replica.createLease({ ttlMs: TTL_MS });
  for (const name of ['released', 'unread']) await replica.hold(name, handle, { lockDelayMs: 60_000 });
  const lease = await leaseBehind(replica, handle);
  const { sessions } = replica.gateway.context.leases;
  const end = sessions.end.bind(sessions);
  let sent = (): void => undefined;
  const whenSent = new Promise<void>((resolve) => (sent = resolve));
  sessions.end = (...[ended, deadline, requester, before]) =>
    end(ended, deadline, requester, (session) => {
      const [getData, multi] = [session.getData.bind(session), session.multi.bind(session)];
      session.getData = async (path, until) => {
        if (!path.startsWith(`${witness.directory('unread')}/`)) return getData(path, until);
        await whenSent;
        throw new NoReplyError('getData', 'connection-lost', false);
      };
      session.multi = async (operations, until) => {
        sent();
        await multi(operations, until);
        return new Promise(() => undefined); // its reply never comes
      };
      return before?.(session) ?? Promise.resolve();
    });
  const ending = endLease(replica.gateway.context, lease, { deadline: soon(scaled(500)), requester: PRESENT });
  await expect(ending).rejects.toMatchObject({ code: 'outcome-unknown' });
  expect(await witness.line('released')).toEqual([]);
  expect(await witness.line('unread')).toHaveLength(1);
});

test('a revocation that has asked one of two holders, and cannot read the other, says that it may be done (C17)', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  const leases = [await replica.createLease({ ttlMs: TTL_MS }), await replica.createLease({ ttlMs: TTL_MS })];
  for (const { leaseToken } of leases)
    await replica.expect(200, 'POST', '/v1/rwlocks/two/acquire', { body: { mode: 'read' }, leaseToken });
  const { context } = replica.gateway;
  const { control, layout } = context;
  const directory = layout.line('rwlock', 'default', 'two');
  const { children } = await control.getChildren(directory, soon());
  const [, unread] = sortLine(children);
  let sent = (): void => undefined;
  const whenSent = new Promise<void>((resolve) => (sent = resolve));
  const getData = control.getData.bind(control);
  control.getData = async (path, until) => {
    if (path !== `${directory}/${unread?.name}`) return getData(path, until);
    control.getData = getData;
    await whenSent;
    throw new NoReplyError('getData', 'connection-lost', false);
  };
  const writingFor = control.writingFor.bind(control);
  control.writingFor = (requester) => {
    const client = writingFor(requester);
    const multi = client.multi.bind(client);
    client.multi = (operations, until) => {
      sent();
      return multi(operations, until);
    };
    return client;
  };
  const revoking = revoke(context, {
    ...{ kind: 'rwlock', namespace: 'default', name: 'two', deadline: soon(), requester: PRESENT },
    ...{ holdId: undefined, reason: undefined, graceMs: undefined },
  });
  await expect(revoking).rejects.toMatchObject({ code: 'outcome-unknown' });
  expect((await control.getChildren(layout.pendingRevocations, soon())).children).toHaveLength(1);
});
