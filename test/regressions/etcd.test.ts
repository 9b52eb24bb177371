/**
 * What went wrong with etcd's locks, tried here: an acquire that does not look at its lease again after the wait, and a
 * release that does not look at what it frees. docs/regressions.md says more about each.
 */
import { expect, test } from 'vitest';
import { startCuttable, Witness } from '../support/scene.js';
import { eventually } from '../support/eventually.js';
import { expireSession, startReplica } from '../support/start-gateway.js';
import { freshRoot } from '../support/start-zookeeper.js';

const TTL_MS = 20_000;

/**
 * The server saw the holder leave and answered the one behind it, whose own lease had ended meanwhile: a lost update in
 * a Jepsen test.
 */
test('etcd #11456: a wait that outlasted its lease ends with 410, and not with the lock', async () => {
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
  const { fencingToken } = await b.hold('waited', holder);
  const waiting = a.acquire('waited', me, { waitMs: TTL_MS });
  await b.untilWaiting('waited', 1);
  // A learns of both in one breath: that the holder has left, and (if it looks) that the lease has ended.
  proxy.suspend();
  await expireSession(b, me.leaseId);
  await b.release('waited', holder);
  proxy.heal();
  const { status, body } = await waiting;
  expect({ status, code: (body as { code: string }).code }).toEqual({ status: 410, code: 'lease-expired' });
  expect(await witness.line('waited')).toEqual([]);
  expect((await a.hold('waited', next)).fencingToken).toBeGreaterThan(fencingToken);
});

/**
 * The answer to an unlock is lost, the client locks again with the same session, under the same key; the old unlock,
 * repeated, deletes that.
 */
test('etcd #22082: a release that is repeated because its answer was lost does not free the hold that came after it', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const me = await a.createLease({ ttlMs: TTL_MS });
  const { holdId } = await a.hold('again', me, { requestId: 'job' });
  proxy.pause('fromZooKeeper');
  const gone = new AbortController();
  const answer = a
    .call('POST', '/v1/locks/again/release', { body: { holdId }, leaseToken: me.leaseToken, signal: gone.signal })
    .catch(() => 'lost');
  await eventually('it is released', async () => (await witness.line('again')).length === 0);
  gone.abort();
  expect(await answer).toBe('lost');
  const newer = await b.hold('again', me, { requestId: 'job' });
  proxy.heal();
  for (const replica of [a, b])
    expect((await replica.release('again', me, { holdId })).body).toMatchObject({ status: 409, code: 'not-holder' });
  expect(await witness.holder('again')).toBe(newer.fencingToken);
});
