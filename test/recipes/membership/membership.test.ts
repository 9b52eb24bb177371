/** Whose node it is, at the moment of the write. */
import { expect, test } from 'vitest';
import type { Leases } from '../../../src/leases/leases.js';
import type { Lease } from '../../../src/leases/lease.js';
import { Memberships, OtherOwner, OWN_DIRECTORY } from '../../../src/recipes/membership/membership.js';
import { leaseBehind, PRESENT, soon } from '../../support/scene.js';
import { leaseFor } from '../group/client.js';
import { passed } from '../../support/eventually.js';
import { answeringBehind, Gate, intercepted } from '../../support/gate.js';
import { startPair, type Replica } from '../../support/start-gateway.js';
import { timing } from '../../support/timing.js';

test('a write that has read its node waits for nobody to leave in between, so it never meets another lease’s (T10, C10)', async () => {
  await using pair = await startPair();
  const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
  const [mine, others] = [await leaseBehind(pair.a, one), await leaseBehind(pair.b, two)];
  const gate = new Gate();
  const here = new Memberships({
    control: pair.a.gateway.context.control,
    leases: behind(gate, pair.a),
    names: pair.a.gateway.context.names,
  });
  const there = new Memberships(pair.b.gateway.context);
  const path = `${pair.a.gateway.context.layout.group('default', 'team')}/w1`;
  const put = (memberships: Memberships, lease: Lease, text: string): Promise<unknown> =>
    memberships.put({
      lease,
      path,
      data: Buffer.from(text),
      isMine: () => false,
      directory: OWN_DIRECTORY,
      deadline: soon(),
      requester: PRESENT,
    });
  await put(here, mine, 'mine');
  gate.shut();
  const writing = put(here, mine, 'mine again');
  await gate.reached;
  const leaving = here.remove({ lease: mine, path, deadline: soon(), requester: PRESENT });
  const joining = (async () => {
    for (;;) {
      try {
        return await put(there, others, 'the other’s');
      } catch (error) {
        if (!(error instanceof OtherOwner)) throw error;
        await passed(timing.pollMs);
      }
    }
  })();
  // Where leaving does not wait, the other one has joined by now, at the version that the write has read.
  await Promise.race([joining, passed(timing.quietMs)]);
  gate.open();
  await Promise.all([writing, leaving, joining]);
  const { data, stat } = await pair.b.gateway.context.control.getData(path);
  expect(stat.ephemeralOwner).toBe(others.sessionId);
  expect(data.toString()).toBe('the other’s');
});

test('a node of another lease is neither written nor removed, and its owner is told', async () => {
  await using pair = await startPair();
  const [one, two] = await Promise.all([leaseFor(pair.a), leaseFor(pair.a)]);
  const [mine, others] = [await leaseBehind(pair.a, one), await leaseBehind(pair.b, two)];
  const memberships = new Memberships(pair.a.gateway.context);
  const path = `${pair.a.gateway.context.layout.group('default', 'team')}/w1`;
  const request = { path, isMine: () => true, directory: OWN_DIRECTORY, deadline: soon(), requester: PRESENT };
  await memberships.put({ ...request, lease: mine, data: Buffer.from('mine') });
  const refused = await memberships
    .put({ ...request, lease: others, data: Buffer.from('the other’s') })
    .catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(OtherOwner);
  expect((refused as OtherOwner).node.data.toString()).toBe('mine');
  await expect(
    memberships.remove({ lease: others, path, deadline: soon(), requester: PRESENT }),
  ).rejects.toBeInstanceOf(OtherOwner);
  expect((await pair.b.gateway.context.control.getData(path)).data.toString()).toBe('mine');
});

/** The replica's leases, on whose sessions each reading waits at the gate with its answer. */
function behind(gate: Gate, { gateway }: Replica): Leases {
  const { leases } = gateway.context;
  const sessions = intercepted(leases.sessions, {
    useRepeatedly: (lease, deadline, work) =>
      leases.sessions.useRepeatedly(lease, deadline, (session, attempt) =>
        work(answeringBehind(gate, session, 'getData'), attempt),
      ),
  });
  return intercepted(leases, { sessions });
}
