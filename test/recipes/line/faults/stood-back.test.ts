/**
 * A place is made as `granted`, in case it is the first. Where it is not, that is taken back while somebody stands
 * before it: who has been shown as the holder is told that it holds (C3).
 */
import { expect, test } from 'vitest';
import { sortLine } from '../../../../src/recipes/line/contender.js';
import { Joining } from '../../../../src/recipes/line/join/joining.js';
import { Place } from '../../../../src/recipes/line/place.js';
import { OPCODE } from '../../../../src/zookeeper/operations.js';
import type { Held } from '../../../support/http/client.js';
import { expireSession, startPair, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { startCuttable, Witness } from '../../../support/scene.js';

const TTL_MS = 20_000;

/** Does something in the moment in which a place is about to be written as one that waits. */
function beforeStandingBack(meanwhile: () => Promise<void>): Disposable {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with the place, and put back
  const { write } = Place.prototype;
  const putBack = (): void => void (Place.prototype.write = write);
  Place.prototype.write = async function (this: Place, ...args: Parameters<typeof write>) {
    putBack();
    await meanwhile();
    return write.apply(this, args);
  } as typeof write;
  return { [Symbol.dispose]: putBack };
}

/** Does something between the next listing of somebody who joins and its answer. */
function beforeListing(meanwhile: () => Promise<void>): Disposable {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- put back
  const { list } = Joining.prototype;
  const putBack = (): void => void (Joining.prototype.list = list);
  Joining.prototype.list = async function (this: Joining) {
    putBack();
    const { children, zxid, stat } = await this.session.getChildren(this.line.path, this.request.hardDeadline);
    await meanwhile();
    const line = sortLine(children);
    this.line.merge(line, zxid, stat);
    return line;
  };
  return { [Symbol.dispose]: putBack };
}

test('a lock whose holder goes in that moment is held by the next, as it is shown', async () => {
  await using pair = await startPair();
  const [holder, me] = [await pair.b.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.b.hold('left', holder);
  let shown: number[] = [];
  using _ = beforeStandingBack(async () => {
    await pair.b.release('left', holder);
    const { holders } = (await pair.b.showLock('left')) as { holders: Held[] };
    shown = holders.map(({ fencingToken }) => fencingToken);
  });
  const { fencingToken } = await pair.a.hold('left', me, { waitMs: 0, keepPlace: true });
  expect(shown).toEqual([fencingToken]);
});

test('an attempt that is repeated in that moment holds as well', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const [holder, me] = [await pair.b.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.b.hold('repeated', holder);
  await pair.a.acquire('repeated', me, { waitMs: 0, keepPlace: true });
  const [, mine] = await witness.line('repeated');
  // As an attempt leaves it that was cut off before it wrote more.
  if (mine === undefined) throw new Error('it has a place');
  await witness.rewrite(mine, { state: 'granted', waitUntil: undefined });
  using _ = beforeStandingBack(async () => void (await pair.b.release('repeated', holder)));
  expect((await pair.a.hold('repeated', me, { waitMs: 0, keepPlace: true })).fencingToken).toBe(mine.stat.czxid);
});

test('a writer before whom one of several readers goes waits for the others', async () => {
  await using pair = await startPair();
  const [gone, stays, me] = await Promise.all([1, 2, 3].map(() => pair.b.createLease({ ttlMs: TTL_MS })));
  if (gone === undefined || stays === undefined || me === undefined) throw new Error('there are three');
  const acquire = (lease: typeof me, status: number, body: object): Promise<Held> =>
    pair.a.expect(status, 'POST', '/v1/rwlocks/shared/acquire', { ...lease, body }) as Promise<Held>;
  await acquire(gone, 200, { mode: 'read' });
  await acquire(stays, 200, { mode: 'read' });
  const releasing = { ...gone, body: {} };
  using _ = beforeStandingBack(() => pair.b.expect(204, 'POST', '/v1/rwlocks/shared/release', releasing));
  await acquire(me, 202, { mode: 'write', keepPlace: true });
  await pair.b.expect(204, 'POST', '/v1/rwlocks/shared/release', { ...stays, body: {} });
  await acquire(me, 200, { mode: 'write', keepPlace: true });
});

test('one of whom another request of the replica knows already that nobody stands before it holds', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  const other = await a.createLease({ ttlMs: TTL_MS });
  await b.hold('late', holder);
  let shown: number[] = [];
  using _ = beforeListing(async () => {
    await b.release('late', holder);
    expect((await a.acquire('late', other, { keepPlace: true })).status).toBe(202);
    const { holders } = (await b.showLock('late')) as { holders: Held[] };
    shown = holders.map(({ fencingToken }) => fencingToken);
  });
  const { fencingToken } = await a.hold('late', me, { keepPlace: true });
  expect(shown).toEqual([fencingToken]);
});

test('one before whom a hold was lost with a delay, the first of its line, waits for the end of that (C16)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, delayed] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  const me = await a.createLease({ ttlMs: TTL_MS });
  const delay = { lockDelayMs: 60_000, keepPlace: true };
  await b.hold('unaware', first);
  expect((await b.acquire('unaware', delayed, delay)).status).toBe(202);
  using _ = beforeStandingBack(async () => {
    await b.release('unaware', first);
    await b.hold('unaware', delayed, delay);
    await expireSession(b, delayed.leaseId);
  });
  expect((await a.acquire('unaware', me, { keepPlace: true })).status).toBe(202);
  expect(await b.showLock('unaware')).toMatchObject({ holders: [], lockedUntil: expect.any(String) as string });
});

test('one whose place was given up in that moment, and whose directory was written to, does not hold', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a, b } = pair;
  const [first, other] = [await b.createLease({ ttlMs: TTL_MS }), await b.createLease({ ttlMs: TTL_MS })];
  const me = await a.createLease({ ttlMs: TTL_MS });
  await b.hold('gone', first);
  using _ = beforeStandingBack(async () => {
    const directory = witness.directory('gone');
    await witness.control.setData(directory, (await witness.control.getData(directory)).data);
    for (const lease of [me, first]) await b.release('gone', lease);
    await b.hold('gone', other);
  });
  expect((await a.acquire('gone', me, { keepPlace: true })).status).toBe(409);
});

test.each(['waiting', 'granted'] as const)('a reply to the write of %s that is lost changes nothing', async (state) => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const [holder, me] = [await b.createLease({ ttlMs: TTL_MS }), await a.createLease({ ttlMs: TTL_MS })];
  await b.hold('lost', holder);
  const lose = (): void => void proxy.loseReply(OPCODE.multi);
  using _ = beforeStandingBack(async () => {
    if (state === 'waiting') return lose();
    await b.release('lost', holder);
    beforeStandingBack(() => Promise.resolve(lose())); // before the grant
  });
  const { status } = await a.acquire('lost', me, { keepPlace: true });
  expect(status).toBe(state === 'granted' ? 200 : 202);
  expect((await witness.line('lost')).at(-1)?.record?.state).toBe(state);
});
