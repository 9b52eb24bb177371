/**
 * A place that says `granted` beside a running lock-delay: its replica made it so before it knew of the delay. Nobody
 * takes it for a hold (C16).
 */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startCuttable, Witness, type Seen } from '../../../support/scene.js';
import { expireSession, startReplica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';

const TTL_MS = 30_000;
const DELAY_MS = 60_000;
const LOCK = '/v1/locks/res';

test('a place that a newcomer has made as granted is no hold while the delay runs (C16)', async () => {
  const root = freshRoot();
  await using near = await startReplica({ root });
  await using far = await startCuttable({ root });
  await using witness = await Witness.start(root);
  const [lost, newcomer] = [
    await near.createLease({ ttlMs: TTL_MS }),
    await far.replica.createLease({ ttlMs: TTL_MS }),
  ];
  await near.hold('res', lost, { lockDelayMs: DELAY_MS });
  await expireSession(near, lost.leaseId);
  const lockedUntil = expect.any(String) as string;
  expect(await near.showLock('res')).toMatchObject({ holders: [], lockedUntil });

  await using events = await EventReader.open(near.url, `${LOCK}/events`);
  expect(await events.next()).toMatchObject({ data: { holders: [] } });

  // The answers do not come back: the newcomer's node is made, and its replica hears nothing of the delay.
  far.proxy.pause('fromZooKeeper');
  const acquiring = far.replica.acquire('res', newcomer, { waitMs: 1_000 });
  const { stat } = await eventually('its place says granted', async (): Promise<Seen | undefined> => {
    const [head] = await witness.line('res');
    return head?.record?.state === 'granted' ? head : undefined;
  });
  const waiters = [{ leaseId: newcomer.leaseId, position: 1 }];
  expect(await near.showLock('res')).toMatchObject({ holders: [], holderCount: 0, waiters, lockedUntil });
  expect(await near.expect(200, 'GET', '/v1/locks')).toMatchObject({ items: [{ name: 'res', holders: [] }] });
  expect(await near.expect(200, 'GET', `${LOCK}/waiters`)).toMatchObject({ items: waiters });
  const fencingToken = stat.czxid;
  const stale = { current: false, latestFencingToken: null };
  expect(await near.expect(200, 'POST', `${LOCK}/check`, { body: { fencingToken } })).toMatchObject(stale);
  const guard = `lock=res;token=${fencingToken}`;
  expect(await near.expect(412, 'PUT', '/v1/config/guarded', { headers: { guard }, body: '1' })).toMatchObject({
    code: 'fencing-token-stale',
    latestFencingToken: null,
  });
  far.proxy.resume('fromZooKeeper');
  const told = (): unknown[] => events.seen.flatMap(({ data }) => (data as { holders: unknown[] }).holders);
  expect(told()).toEqual([]);
  expect(await acquiring).toMatchObject({ status: 409, body: { code: 'lock-held' } });
});
