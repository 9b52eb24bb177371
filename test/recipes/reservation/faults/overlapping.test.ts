/** Two attempts of one reservation at once: the first is through before the second is done with its place (C56). */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { Witness } from '../../../support/scene.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { startPair, type Pair, type Replica } from '../../../support/start-gateway.js';
import { giveBack, isFree, newRequestId, reserved, tryToReserve } from '../client.js';

const NAME = 'staging';

/** Lets `meanwhile` happen once, before or after the replica makes a place on the session of a lease. */
function atPlacing({ gateway }: Replica, when: 'before' | 'after', meanwhile: () => Promise<unknown>): void {
  const { sessions } = gateway.context.leases;
  const use = sessions.useRepeatedly.bind(sessions);
  let done = false;
  const once = async (now: typeof when): Promise<void> => {
    if (done || now !== when) return;
    done = true;
    await meanwhile();
  };
  sessions.useRepeatedly = (lease, deadline, work, requester) =>
    use(
      lease,
      deadline,
      (session, attempt) => {
        const create = session.create.bind(session);
        session.create = async (...node) => {
          await once('before');
          const created = await create(...node);
          await once('after');
          return created;
        };
        return work(session, attempt);
      },
      requester,
    );
}

async function leaseIds(replica: Replica): Promise<string[]> {
  const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
  return items.map(({ leaseId }) => leaseId);
}

interface LinedUp {
  /** Of the lock's holder. */
  lease: LeaseHandle;
  requestId: string;
  first: ReturnType<typeof reserved>;
}

/** A reservation that waits at A for a lock that is held. */
async function lineUp({ a }: Pair, ttlMs: number): Promise<LinedUp> {
  const [lease, requestId] = [await a.createLease({ ttlMs }), newRequestId()];
  await a.hold(NAME, lease);
  const first = reserved(a, NAME, { requestId, waitMs: 20_000 });
  await a.untilWaiting(NAME, 1);
  return { lease, requestId, first };
}

test('a repeated request that comes upon the end of the lease leaves no second place (C56)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { lease, requestId, first } = await lineUp(pair, 20_000);
  let places = 0;
  atPlacing(pair.b, 'after', async () => {
    places = (await witness.line(NAME)).length;
    await pair.a.release(NAME, lease);
    await first;
    await eventually('its lease has ended', async () => (await leaseIds(pair.a)).length === 1);
  });
  const again = await reserved(pair.b, NAME, { requestId, waitMs: 20_000 });
  const { fencingToken } = await first;
  expect(again).toMatchObject({ alreadyHeld: true, fencingToken });
  expect(places).toBe(3);
  await eventually('its place is the only one', async () => (await witness.line(NAME)).length === 1);
  expect((await giveBack(pair.a, NAME, again)).status).toBe(204);
  expect(await isFree(pair.b, NAME)).toBe(true);
});

test('the second place of a request whose replica died when it had made it is passed by once it is first (C56)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { lease, requestId, first } = await lineUp(pair, 60_000);
  atPlacing(pair.b, 'after', () => Promise.reject(new Error('the replica dies')));
  expect((await tryToReserve(pair.b, NAME, { requestId, waitMs: 500 })).status).toBe(500);
  await pair.a.release(NAME, lease);
  const held = await first;
  expect(await witness.line(NAME)).toHaveLength(2);
  expect((await giveBack(pair.a, NAME, held)).status).toBe(204);
  const { fencingToken } = await pair.b.hold(NAME, lease, { waitMs: 20_000 });
  expect(fencingToken).toBeGreaterThan(held.fencingToken);
});

test('a place that is granted when its reservation is over already is passed by after its wait (C56)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { lease, requestId, first } = await lineUp(pair, 60_000);
  pair.a.gateway.context.leases.end = () => Promise.resolve(); // the replica dies before it has ended the lease
  atPlacing(pair.b, 'before', async () => {
    await pair.a.release(NAME, lease);
    expect((await giveBack(pair.a, NAME, await first)).status).toBe(204);
  });
  expect((await tryToReserve(pair.b, NAME, { requestId, waitMs: 500 })).body).toMatchObject({ code: 'lock-held' });
  expect(await witness.line(NAME)).toMatchObject([{ record: { state: 'granted', reservation: {} } }]);
  await pair.b.hold(NAME, lease, { waitMs: 20_000 });
});
