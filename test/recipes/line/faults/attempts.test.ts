/** One client, several tries of one request: whoever has the place now is never harmed by a try that came before. */
import { expect, test } from 'vitest';
import { unless } from '../../../../src/zookeeper/errors.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { acquireDirectly, leaseBehind, soon, startCuttable, Witness } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 20_000;
/** ZooKeeper's opcode. */
const SET_DATA = 5;

test('an attempt that its client has left does not give up the hold that the repeated request was given (C1)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me, next] = [
    await b.createLease({ ttlMs: TTL_MS }),
    await b.createLease({ ttlMs: TTL_MS }),
    await b.createLease({ ttlMs: TTL_MS }),
  ];
  await b.hold('left', holder);
  const gone = new AbortController();
  const left = a.acquire('left', me, { waitMs: 20_000 }, { signal: gone.signal }).catch(() => 'left');
  await witness.untilWritten('left', 1);
  proxy.suspend(); // A learns nothing from here on
  const repeated = b.hold('left', me, { waitMs: 20_000 });
  await witness.untilWritten('left', 2); // B has taken it over
  const queued = b.hold('left', next, { waitMs: 20_000 });
  await b.untilWaiting('left', 2);
  await b.release('left', holder);
  const { fencingToken } = await repeated;
  gone.abort();
  expect(await left).toBe('left');
  await eventually('A has noticed', async () => (await a.metric('postern_waiters')) === 0);
  proxy.heal();
  await eventually('A is done with it', () => a.gateway.context.lines.size === 0);
  await throughout('the hold stays', async () => (await witness.holder('left')) === fencingToken);
  await b.release('left', me);
  expect((await queued).fencingToken).toBeGreaterThan(fencingToken);
});

test('a grant that could not be delivered is given back only while no other attempt has it (C1)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  const first = await acquireDirectly(pair.a, me, 'undelivered');
  if (!first.held) throw new Error('a free lock was refused');
  const repeated = await pair.b.hold('undelivered', me);
  expect(repeated).toMatchObject({ alreadyHeld: true, fencingToken: first.fencingToken });
  first.undelivered();
  await throughout('the hold stays', async () => (await witness.holder('undelivered')) === repeated.fencingToken);
});

test('a hold stays when nobody learns what came of a request that found it (C1)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const { fencingToken } = await a.hold('found', me);
  // The second request has written itself down as the one that has the place; that answer is lost, and so is all that
  // is tried afterwards.
  const cut = proxy.loseReply(SET_DATA).then(() => proxy.refuse());
  const acquiring = acquireDirectly(a, me, 'found', { hardDeadline: soon(scaled(1_000)) });
  await expect(acquiring).rejects.toMatchObject({ code: 'outcome-unknown' });
  await cut;
  proxy.accept();
  await eventually('nothing is left to be taken back', () => a.gateway.context.cleanup.pending === 0);
  expect(await witness.holder('found')).toBe(fencingToken);
  // The same on the way: it finds its own writing, and below it is what was held before.
  const lost = proxy.loseReply(SET_DATA);
  const again = await acquireDirectly(a, me, 'found');
  await lost;
  expect(again).toMatchObject({ alreadyHeld: true, fencingToken });
  if (again.held) again.undelivered();
  await throughout('the hold stays', async () => (await witness.holder('found')) === fencingToken);
});

test('a waitMs that ends after the place was taken over says conflict and leaves the place (C1)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('late', holder);
  const short = pair.a.acquire('late', me, { waitMs: scaled(1_500) });
  await pair.b.untilWaiting('late', 1);
  const long = pair.b.hold('late', me, { waitMs: 20_000 });
  const { status, body } = await short;
  expect({ status, code: (body as { code: string }).code }).toEqual({ status: 409, code: 'conflict' });
  expect(await witness.line('late')).toHaveLength(2);
  await pair.a.release('late', holder);
  await long;
});

test('two nodes of one request become one place, the lower one, before anything is answered (C6)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  const { fencingToken } = await pair.a.hold('twice', me);
  await duplicate(pair.b, witness, me, 'twice');
  const again = await pair.b.hold('twice', me);
  expect(again).toMatchObject({ alreadyHeld: true, fencingToken });
  expect((await witness.line('twice')).map(({ stat }) => stat.czxid)).toEqual([fencingToken]);
});

test('a create whose answer was lost is found again and not repeated (C6)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [before, me] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  await a.hold('cut', before); // so that the directory exists, and joining makes the place alone
  await a.release('cut', before);
  const lost = proxy.loseReply(14);
  const { fencingToken } = await a.hold('cut', me);
  await lost;
  expect((await witness.line('cut')).map(({ stat }) => stat.czxid)).toEqual([fencingToken]);
});

test('a release by requestId frees every node of the request (C6)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  await pair.a.hold('both', me);
  await duplicate(pair.a, witness, me, 'both');
  await pair.b.release('both', me);
  expect(await witness.line('both')).toEqual([]);
});

test('a release that ZooKeeper hears of late does not free what a repeated acquire was answered since (C7)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const { holdId, fencingToken } = await a.hold('overtaken', me);
  const gone = new AbortController();
  proxy.suspend(); // what A sends from here on arrives later
  const { leaseToken } = me;
  const request = { body: { holdId }, leaseToken, signal: gone.signal };
  const left = a.call('POST', '/v1/locks/overtaken/release', request).catch(() => 'left');
  await eventually('A has sent it, which takes more than pings', () => proxy.heldBytes('toZooKeeper') > 100);
  gone.abort();
  expect(await left).toBe('left');
  const repeated = await b.hold('overtaken', me);
  expect(repeated).toMatchObject({ alreadyHeld: true, fencingToken });
  proxy.heal();
  await a.hold('another', await a.createLease({ ttlMs: TTL_MS })); // behind it, on the same connection
  await throughout('the hold stays', async () => (await witness.holder('overtaken')) === fencingToken);
});

test('a late release by holdId does not meet the hold that came after (C7)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  const { holdId } = await pair.a.hold('again', me);
  await pair.b.release('again', me); // A still remembers the grant
  const { fencingToken } = await pair.b.hold('again', me);
  for (const replica of [pair.a, pair.b]) {
    expect((await replica.release('again', me, { holdId })).body).toMatchObject({ code: 'not-holder' });
  }
  expect(await witness.holder('again')).toBe(fencingToken);
});

test('a release whose answer was lost answers as the first try would have (C7)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const { holdId } = await a.hold('lost-release', me);
  const lost = proxy.loseReply(2);
  expect((await a.release('lost-release', me, { holdId })).status).toBe(204);
  await lost;
});

test('a release of nothing says so, also where the answer to its fence was lost (C7)', async () => {
  await using cuttable = await startCuttable({ root: freshRoot() });
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const lost = proxy.loseReply(SET_DATA);
  expect((await a.release('never-held', me, { requestId: 'never' })).body).toMatchObject({ code: 'not-holder' });
  await lost;
});

test('a holdId, which everybody can read, releases nothing without the lease that it belongs to (C8)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [me, thief] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('public', me);
  const shown = (await pair.b.showLock('public')) as { holders: { holdId: string; fencingToken: number }[] };
  const { holdId, fencingToken } = shown.holders[0] as { holdId: string; fencingToken: number };
  for (const replica of [pair.a, pair.b]) {
    expect((await replica.release('public', thief, { holdId })).body).toMatchObject({
      status: 409,
      code: 'not-holder',
    });
  }
  expect(await witness.holder('public')).toBe(fencingToken);
});

test('a hold that has the path of an earlier one, in a directory made anew, is not taken for it (C10)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const me = await pair.a.createLease({ ttlMs: TTL_MS });
  // Curator was there first: the server removes the directory when it is empty, and its sequence begins again.
  const directory = witness.directory('anew');
  await witness.control.ensurePath(directory.slice(0, directory.lastIndexOf('/')));
  await witness.control.create(directory, undefined, { mode: 'container' });
  const { holdId } = await pair.a.hold('anew', me);
  const [old] = await witness.line('anew');
  await pair.b.release('anew', me); // A still remembers the grant
  await unless(witness.control.delete(directory), 'NO_NODE'); // the server may have been quicker
  await witness.control.create(directory, undefined, { mode: 'container' });
  const { fencingToken } = await pair.b.hold('anew', me);
  expect((await witness.line('anew'))[0]?.path).toBe(old?.path);
  for (const replica of [pair.a, pair.b]) {
    expect((await replica.release('anew', me, { holdId })).body).toMatchObject({ code: 'not-holder' });
  }
  expect(await witness.holder('anew')).toBe(fencingToken);
});

test('a give-up that is made late does not meet a later place of the same path and version (C10)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a } = pair;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const first = await a.hold('late-give-up', me);
  const [old] = await witness.line('late-give-up');
  if (old === undefined) throw new Error('nobody holds');
  await a.release('late-give-up', me, { holdId: first.holdId });
  await witness.control.delete(witness.directory('late-give-up'));
  const { fencingToken } = await a.hold('late-give-up', me);
  expect((await witness.line('late-give-up'))[0]).toMatchObject({
    path: old.path,
    stat: { version: old.stat.version },
  });
  const { cleanup } = a.gateway.context;
  cleanup.deleteLater(old.path, old.record?.attempt ?? '');
  await eventually('it is done', () => cleanup.pending === 0);
  expect(await witness.holder('late-give-up')).toBe(fencingToken);
});

/** What a crash between a repeated create and the removal of the second node leaves. */
async function duplicate(
  replica: Parameters<typeof leaseBehind>[0],
  witness: Witness,
  me: { leaseToken: string },
  name: string,
): Promise<void> {
  const [first] = await witness.line(name);
  if (first === undefined) throw new Error(`nobody stands at ${name}`);
  const prefix = first.path.slice(0, -10);
  const data = (await witness.control.getData(first.path)).data;
  await replica.gateway.context.leases.sessions.useRepeatedly(await leaseBehind(replica, me), soon(), (session) =>
    session.create(prefix, data, { mode: 'ephemeral-sequential' }),
  );
  expect(await witness.line(name)).toHaveLength(2);
}
