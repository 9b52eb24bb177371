/**
 * A place is made as `granted`, in case it is the first. Where it is not, that is taken back while somebody stands
 * before it: who has been shown as the holder is told that it holds (C3).
 */
import { expect, test } from 'vitest';
import { Place } from '../../../../src/recipes/line/place.js';
import type { Held } from '../../../support/http/client.js';
import { startPair } from '../../../support/start-gateway.js';
import { Witness } from '../../../support/scene.js';

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
