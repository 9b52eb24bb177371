/** A lease that ends between two tries of one request: what the first try sent may have been done (protocol C35). */
import { expect, test } from 'vitest';
import { orUnknown } from '../../src/recipes/behind-write.js';
import { NoReplyError } from '../../src/zookeeper/errors.js';
import { leaseBehind } from '../support/scene.js';
import { expireSession, startReplica } from '../support/start-gateway.js';
import { rejection, within } from '../support/zookeeper/sessions.js';

test.each([
  [true, 'unknown'],
  [false, 'not-applied'],
])('where something may have been sent before: %s, the outcome is %s', async (sent, outcome) => {
  await using replica = await startReplica();
  const { sessions } = replica.gateway.context.leases;
  const handle = await replica.createLease({ ttlMs: 20_000 });
  const lease = await leaseBehind(replica, handle);
  const work = sessions.useRepeatedly(lease, within(), async (session, attempt) => {
    if (attempt > 0) return session.sync('/');
    await expireSession(replica, handle.leaseId);
    throw new NoReplyError('multi', 'connection-lost', sent);
  });
  expect(await rejection(work)).toMatchObject({ code: 'lease-expired', outcome });
  const behindWrite = orUnknown(
    sessions.useRepeatedly(lease, within(), (session) => session.sync('/')),
    () => sent,
  );
  expect(await rejection(behindWrite)).toMatchObject({ code: 'lease-expired', outcome });
});

test('the end of a lease whose own node is gone ends its session, also at the second try', async () => {
  await using replica = await startReplica();
  const { leases, layout, control } = replica.gateway.context;
  const [handle, other] = [await replica.createLease({ ttlMs: 40_000 }), await replica.createLease({ ttlMs: 40_000 })];
  expect((await replica.acquire('a', handle)).status).toBe(200);
  const lease = await leaseBehind(replica, handle);
  let tries = 0;
  await leases.sessions.end(lease, within(), undefined, async () => {
    tries += 1;
    if (tries > 1) return;
    await control.delete(layout.lease(lease.namespace, lease.leaseId));
    throw new NoReplyError('multi', 'connection-lost', true);
  });
  expect((await replica.acquire('a', other)).status).toBe(200);
  expect(tries).toBe(2);
});
