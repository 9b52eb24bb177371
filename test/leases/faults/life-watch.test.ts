/** The watch on a lease's own node, where its event and the answer of the request that sets it come together. */
import { expect, test } from 'vitest';
import { LeaseLife } from '../../../src/leases/lease-life.js';
import { eventually } from '../../support/eventually.js';
import { answeringBehind, Gate, intercepted } from '../../support/gate.js';
import { startReplica } from '../../support/start-gateway.js';
import { within } from '../../support/zookeeper/sessions.js';

test('a lease whose watch has fired before it was known to be set is watched again', async () => {
  await using replica = await startReplica();
  const { control, leases, layout } = replica.gateway.context;
  const { leaseToken } = await replica.createLease({ ttlMs: 20_000 });
  const caller = { principal: 'anonymous', namespace: undefined };
  const { lease } = await leases.open(leaseToken, caller, within());
  const path = `${layout.namespace(lease.namespace)}/leases/not-there-yet`;
  const gate = new Gate();
  const watches = answeringBehind(gate, control.watches, 'exists');
  let doubts = 0;
  const sessions = intercepted(leases.sessions, { onDetached: (_, listener) => (listener(), () => undefined) });
  gate.shut();
  const life = new LeaseLife(
    { control: intercepted(control, { watches }), sessions },
    lease,
    path,
    () => (doubts += 1),
  );
  await gate.reached;
  await control.create(path);
  await control.sync(path); // behind the event
  gate.open();
  const standing = control.watches.size;
  await eventually('it is watched again', () => control.watches.size > standing);
  const before = doubts;
  await control.delete(path);
  await eventually('its end is a doubt', () => doubts > before);
  life.stop();
  expect(control.watches.size).toBe(standing);
});
