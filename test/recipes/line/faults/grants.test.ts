/** What a grant is: a write on the place itself. Everything that is not one lets others go on in time. */
import { expect, test } from 'vitest';
import { releaseLock } from '../../../../src/recipes/lock/lock.js';
import { NoReplyError } from '../../../../src/zookeeper/errors.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { expireSession, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import { acquireDirectly, leaseBehind, PRESENT, soon, startCuttable, Witness } from '../../../support/scene.js';

const TTL_MS = 20_000;
/** A place is abandoned 5 s after its wait, and looked at every 5 s. */
const ABANDONED_WITHIN_MS = scaled(17_000);

test('a wait whose lease has ended is not granted, although the list of the replica still shows it (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('ended', holder);
  const waiting = pair.a.acquire('ended', me, { waitMs: 10_000 });
  await pair.b.untilWaiting('ended', 1);
  await expireSession(pair.b, me.leaseId);
  await pair.b.release('ended', holder);
  expect((await waiting).status).toBe(410);
  expect(await witness.line('ended')).toEqual([]);
});

test(
  'a place at the head that nobody asks for any more is not shown as a hold, and is passed by in time (C3)',
  { timeout: scaled(40_000) },
  async () => {
    const root = freshRoot();
    await using pair = await startPair({ root });
    await using witness = await Witness.start(root);
    const [holder, silent, next] = [
      await pair.a.createLease({ ttlMs: TTL_MS }),
      await pair.a.createLease({ ttlMs: TTL_MS }),
      await pair.a.createLease({ ttlMs: TTL_MS }),
    ];
    await pair.a.hold('silent', holder);
    expect((await pair.a.acquire('silent', silent, { waitMs: 100, keepPlace: true })).status).toBe(202);
    const queued = pair.b.hold('silent', next, { waitMs: 30_000 });
    await pair.a.untilWaiting('silent', 2);
    await pair.a.release('silent', holder);
    expect((await witness.line('silent')).map(({ record }) => record?.state)).toEqual(['waiting', 'waiting']);
    expect(await pair.a.showLock('silent')).toMatchObject({ holders: [], waiterCount: 2 });
    await pair.a.heartbeat(silent);
    const { fencingToken } = await eventually('the next one holds', () => queued, { withinMs: ABANDONED_WITHIN_MS });
    expect(await witness.holder('silent')).toBe(fencingToken);
    expect((await pair.a.heartbeat(silent)).status).toBe(200);
  },
);

test('the client of an abandoned place that comes back in the moment of its removal keeps it (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('back', holder);
  await pair.a.acquire('back', me, { waitMs: 1, keepPlace: true });
  await pair.a.release('back', holder);
  const [place] = await witness.line('back');
  if (place === undefined) throw new Error('the place was not kept');
  await witness.rewrite(place, { waitUntil: 1 }); // long ago
  const { control } = pair.b.gateway.context;
  const remove = control.delete.bind(control);
  control.delete = async (...args) => {
    control.delete = remove;
    await pair.a.hold('back', me); // between B's look at the place and its removal
    return remove(...args);
  };
  const rival = await pair.b.createLease({ ttlMs: TTL_MS });
  expect((await pair.b.acquire('back', rival)).body).toMatchObject({ code: 'lock-held' });
  expect(await witness.holder('back')).toBe(place.stat.czxid);
});

test('whoever lines up behind waiters that all leave holds by a grant, not by a place that waits (C3)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a } = pair;
  const [holder, before, me] = [
    await a.createLease({ ttlMs: TTL_MS }),
    await a.createLease({ ttlMs: TTL_MS }),
    await a.createLease({ ttlMs: TTL_MS }),
  ];
  await a.hold('crowd', holder);
  const gone = new AbortController();
  const left = a.acquire('crowd', before, { waitMs: 20_000 }, { signal: gone.signal }).catch(() => 'left');
  await pair.b.untilWaiting('crowd', 1);
  const line = await eventually('A knows of the line', () => {
    const known = a.gateway.context.lines.peek(witness.directory('crowd'));
    return known?.seen === undefined ? undefined : known;
  });
  line.seen = undefined; // so that the join does not do without a listing
  // The listing that this join shares is taken when everybody before it has gone.
  const refresh = line.refresh.bind(line);
  line.refresh = async (...args) => {
    line.refresh = refresh;
    await witness.control.removeRecursive((await witness.line('crowd'))[0]?.path ?? '');
    await witness.control.removeRecursive((await witness.line('crowd'))[0]?.path ?? '');
    return refresh(...args);
  };
  const { fencingToken } = await a.hold('crowd', me, { waitMs: 10_000 });
  expect(await witness.holder('crowd')).toBe(fencingToken);
  gone.abort();
  await left;
});

test('a place that could not be turned into a waiting one does not become a hold that nobody knows of (C3)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  await b.hold('half', holder);
  const { control } = a.gateway.context;
  const write = control.setData.bind(control);
  control.setData = () => Promise.reject(new NoReplyError('setData', 'not-connected', false));
  const acquiring = acquireDirectly(a, me, 'half', { waitMs: 5_000, hardDeadline: soon(500) });
  await expect(acquiring).rejects.toBeInstanceOf(NoReplyError);
  control.setData = write;
  await eventually('the place is gone', async () => (await witness.line('half')).length === 1);
});

test('a hand-over grants only who stands directly behind, and only together with the release (T6)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a, b } = pair;
  const [holder, elsewhere, me] = [
    await a.createLease({ ttlMs: TTL_MS }),
    await b.createLease({ ttlMs: TTL_MS }),
    await a.createLease({ ttlMs: TTL_MS }),
  ];
  const { holdId } = await a.hold('next', holder);
  const first = b.hold('next', elsewhere, { waitMs: 20_000 });
  await a.untilWaiting('next', 1);
  let granted = false;
  const second = a.hold('next', me, { waitMs: 20_000 }).then((hold) => {
    granted = true;
    return hold;
  });
  await a.untilWaiting('next', 2);
  await a.release('next', holder, { holdId });
  const { fencingToken } = await first;
  await throughout('the other one waits', async () => !granted && (await witness.holder('next')) === fencingToken);
  await b.release('next', elsewhere);
  expect((await second).fencingToken).toBeGreaterThan(fencingToken);
});

test('a hand-over to a place that another attempt took over meanwhile fails, and the release is done alone (T6)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a } = pair;
  const [holder, me] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  const { holdId } = await a.hold('taken', holder);
  const waiting = a.acquire('taken', me, { waitMs: 20_000 });
  // In line is not enough: the request writes to its place once more before it waits.
  await eventually('it waits', async () => (await a.metric('postern_waiters', { kind: 'lock' })) === 1);
  const [, place] = await witness.line('taken');
  if (place === undefined) throw new Error('nobody waits');
  await witness.rewrite(place, { attempt: 'another', waitUntil: Date.now() + 60_000 });
  expect((await a.release('taken', holder, { holdId })).status).toBe(204);
  expect((await waiting).body).toMatchObject({ code: 'conflict' });
  expect((await witness.line('taken')).map(({ record }) => record?.attempt)).toEqual(['another']);
  expect(await witness.holder('taken')).toBeUndefined();
});

for (const fault of ['loseReply', 'loseRequest'] as const) {
  test(`a hand-over that was cut off is believed only when it happened: ${fault} (T6)`, async () => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using witness = await Witness.start(root);
    const { replica: a, proxy } = cuttable;
    const [holder, me] = [await a.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
    const { holdId } = await a.hold('cut', holder);
    const waiting = a.hold('cut', me, { waitMs: 20_000 }).then(async ({ fencingToken }) => {
      expect(await witness.holder('cut')).toBe(fencingToken);
    });
    // In line is not enough: only to a request that waits in this replica can the release hand over.
    await eventually('it waits', async () => (await a.metric('postern_waiters', { kind: 'lock' })) === 1);
    const cut = proxy[fault](14);
    const lease = await leaseBehind(a, holder);
    await releaseLock(a.gateway.context, {
      lease,
      name: 'cut',
      holdId,
      requestId: '',
      deadline: soon(),
      requester: PRESENT,
    });
    await cut;
    await waiting;
  });
}
