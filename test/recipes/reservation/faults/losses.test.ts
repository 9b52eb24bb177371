/** Reservations where answers are lost, leases end, and others write in between (protocol C56, C57, C58). */
import { describe, expect, test } from 'vitest';
import { ClientGoneError } from '../../../../src/errors.js';
import { freeIfDue } from '../../../../src/recipes/reservation/free.js';
import { reserve, type Reserved } from '../../../../src/recipes/reservation/reserve.js';
import { REVOKE_MESSAGE } from '../../../../src/recipes/line/contender.js';
import { ownDirectory } from '../../../../src/recipes/line/directory.js';
import { callerUntil, type Caller } from '../../../../src/time.js';
import { OPCODE, type MultiOperation } from '../../../../src/zookeeper/operations.js';
import { eventually, throughout } from '../../../support/eventually.js';
import { beforeMulti, PRESENT, soon, startCuttable, Witness } from '../../../support/scene.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { scaled } from '../../../support/timing.js';
import {
  CLOCK_MS,
  extendBy,
  giveBack,
  isFree,
  LONG_MS,
  newRequestId,
  reservationOf,
  reserved,
  tryToReserve,
} from '../client.js';

const NAME = 'staging';

/** What a transaction does to the record. */
type What = 'wants' | 'stands' | 'frees';

/** Which of the transactions of a reservation this is. */
function isThat(what: What, replica: Replica): (operations: readonly MultiOperation[]) => boolean {
  const directory = `${replica.gateway.context.layout.reservationsOf('default')}/`;
  const type = ({ wants: 'create', stands: 'setData', frees: 'delete' } as const)[what];
  return (operations) => operations.some((one) => one.type === type && one.path.startsWith(directory));
}

async function recordsOf(witness: Witness): Promise<string[]> {
  const directory = witness.layout.reservationsOf('default');
  await witness.control.sync(directory);
  return (await witness.control.getChildren(directory)).children;
}

/** Ends the lease of the only reservation that waits, as its timeout would. */
async function endWaitingLease(replica: Replica): Promise<void> {
  const { leases } = replica.gateway.context;
  const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string; label: string }[] };
  const leaseId = items.find(({ label }) => label === 'ann')?.leaseId as string;
  const record = await leases.records.find('default', leaseId, soon());
  const lease = await leases.openStored(record?.token as string, soon());
  if (lease === undefined) throw new Error('the lease does not open');
  await leases.end(lease, soon());
}

/** What is to be given up waits until the returned function is called, which resolves when it is done. */
function holdBack({ gateway }: Replica): () => Promise<void> {
  const { cleanup } = gateway.context;
  const persist = cleanup.persist.bind(cleanup);
  let goOn = (): void => undefined;
  const asked = new Promise<void>((resolve) => (goOn = resolve));
  cleanup.persist = (task) => persist(() => asked.then(task));
  return async () => {
    goOn();
    await eventually('it is given up', () => cleanup.pending === 0);
  };
}

describe('a lost answer', () => {
  test.each([
    ['wants', 'loseReply'],
    ['wants', 'loseRequest'],
    ['stands', 'loseReply'],
    ['stands', 'loseRequest'],
  ] as const)('to the transaction that %s it (%s) makes one reservation (C56)', async (what, lose) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    await using witness = await Witness.start(root);
    const { replica: a, proxy } = cuttable;
    await giveBack(a, NAME, await reserved(a, NAME)); // the directories are there
    let lost: Promise<void> | undefined;
    beforeMulti(a, () => void (lost = proxy[lose](OPCODE.multi)), isThat(what, a));
    const held = await reserved(a, NAME);
    await lost;
    expect(lost).not.toBe(undefined);
    expect(await witness.line(NAME)).toMatchObject([{ stat: { czxid: held.fencingToken, ephemeralOwner: 0n } }]);
    expect(await recordsOf(witness)).toHaveLength(1);
    expect((await giveBack(b, NAME, held)).status).toBe(204);
    expect([await witness.line(NAME), await recordsOf(witness)]).toEqual([[], []]);
  });

  test.each(['loseReply', 'loseRequest'] as const)('to a release (%s) is a release', async (lose) => {
    const root = freshRoot();
    await using cuttable = await startCuttable({ root });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    const held = await reserved(b, NAME);
    let lost: Promise<void> | undefined;
    beforeMulti(a, () => void (lost = proxy[lose](OPCODE.multi)), isThat('frees', a));
    expect((await giveBack(a, NAME, held)).status).toBe(204);
    await lost;
    expect(await isFree(b, NAME)).toBe(true);
  });

  test('for good is outcome-unknown; with its requestId another replica finds what became of it (C56)', async () => {
    const root = freshRoot();
    const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_500)) };
    await using cuttable = await startCuttable({ root, settings });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await giveBack(a, NAME, await reserved(a, NAME));
    let lost: Promise<void> | undefined;
    beforeMulti(a, () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())), isThat('stands', a));
    const requestId = newRequestId();
    const unknown = await tryToReserve(a, NAME, { requestId });
    await lost;
    expect(unknown).toMatchObject({ status: 503, body: { code: 'outcome-unknown', outcome: 'unknown' } });
    expect(await reserved(b, NAME, { requestId })).toMatchObject({ alreadyHeld: true });
  });

  test('for good, which nobody can ask for again, is given back once ZooKeeper can be reached', async () => {
    const root = freshRoot();
    const settings = { POSTERN_REQUEST_TIMEOUT_MS: String(scaled(1_500)) };
    await using cuttable = await startCuttable({ root, settings });
    await using b = await startReplica({ root });
    const { replica: a, proxy } = cuttable;
    await giveBack(a, NAME, await reserved(a, NAME));
    let lost: Promise<void> | undefined;
    beforeMulti(a, () => void (lost = proxy.loseReply(OPCODE.multi).then(() => proxy.refuse())), isThat('stands', a));
    expect((await tryToReserve(a, NAME)).status).toBe(503);
    await lost;
    expect(await isFree(b, NAME)).toBe(false);
    proxy.heal();
    await eventually('it is free', () => isFree(b, NAME), { withinMs: scaled(30_000) });
  });
});

describe('while it waits', () => {
  test('the end of its lease takes place and record away, and the request lines up anew (C56)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const [first, second] = [await pair.a.createLease({ ttlMs: 20_000 }), await pair.a.createLease({ ttlMs: 20_000 })];
    await pair.a.hold(NAME, first);
    const waiting = reserved(pair.b, NAME, { waitMs: 20_000 });
    await pair.a.untilWaiting(NAME, 1);
    const behind = pair.a.hold(NAME, second, { waitMs: 20_000 });
    await pair.a.untilWaiting(NAME, 2);
    const [, place] = await witness.line(NAME);
    await endWaitingLease(pair.a);
    await eventually('its place is another one', async () => {
      const line = await witness.line(NAME);
      return line.length === 3 && line.every(({ path }) => path !== place?.path);
    });
    await pair.a.release(NAME, first);
    await behind;
    await pair.a.release(NAME, second);
    const held = await waiting;
    expect(await reservationOf(pair.a, NAME)).toMatchObject({ holdId: held.holdId });
    await giveBack(pair.a, NAME, held);
    expect(await recordsOf(witness)).toEqual([]);
  });

  test('a repeated request keeps its place when the first one, which was refused, gives up (C56)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const [lease, requestId] = [await pair.a.createLease({ ttlMs: 20_000 }), newRequestId()];
    await pair.a.hold(NAME, lease);
    const goOn = holdBack(pair.a);
    expect((await tryToReserve(pair.a, NAME, { requestId })).status).toBe(409);
    const waiting = reserved(pair.b, NAME, { requestId, waitMs: 20_000 });
    await pair.b.untilWaiting(NAME, 1);
    const [, place] = await witness.line(NAME);
    await goOn();
    expect((await witness.line(NAME))[1]?.path).toBe(place?.path);
    await pair.a.release(NAME, lease);
    expect((await waiting).fencingToken).toBe(place?.stat.czxid);
  });

  test('a repeated request goes on when the first one, which was refused by the order of the lock, gives up (C56)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const [lease, requestId] = [await pair.a.createLease({ ttlMs: 20_000 }), newRequestId()];
    await pair.a.hold(NAME, lease, { priority: 0 });
    await pair.a.release(NAME, lease);
    const goOn = holdBack(pair.a);
    expect((await tryToReserve(pair.a, NAME, { requestId, waitMs: 1_000 })).body.code).toBe('conflict');
    await witness.control.setData(witness.directory(NAME), ownDirectory(false));
    await pair.b.hold(NAME, lease);
    const waiting = reserved(pair.b, NAME, { requestId, waitMs: 20_000 });
    await pair.b.untilWaiting(NAME, 1);
    const [, place] = await witness.line(NAME);
    await goOn();
    expect((await witness.line(NAME))[1]?.path).toBe(place?.path);
    await pair.a.release(NAME, lease);
    expect((await waiting).fencingToken).toBe(place?.stat.czxid);
  });

  test('it does not come to stand for a client that has gone (C35)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    await giveBack(pair.a, NAME, await reserved(pair.a, NAME)); // the directories are there
    const client = { gone: false };
    const requester = callerUntil(client, new AbortController().signal);
    beforeMulti(pair.a, () => void (client.gone = true), isThat('stands', pair.a));
    await expect(reserveDirectly(pair.a, newRequestId(), NAME, requester)).rejects.toThrow(ClientGoneError);
    await eventually('it is free', () => isFree(pair.b, NAME), { withinMs: scaled(3_000) });
    expect(await recordsOf(witness)).toEqual([]);
  });

  test('a place that was granted, and whose lease ends before it stands, is removed by another replica (C56)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    await giveBack(pair.a, NAME, await reserved(pair.a, NAME));
    let doomed: string | undefined;
    beforeMulti(
      pair.a,
      async () => {
        doomed = (await witness.line(NAME))[0]?.path;
        await endWaitingLease(pair.b);
        await eventually('it is removed', async () => (await witness.line(NAME)).length === 0);
      },
      isThat('stands', pair.a),
    );
    const held = await reserved(pair.a, NAME);
    const [place] = await witness.line(NAME);
    expect(doomed).not.toBe(undefined);
    expect(place?.path).not.toBe(doomed);
    expect(place?.stat.czxid).toBe(held.fencingToken);
  });

  test('nobody who stands behind it is granted because of the moment in which it comes to stand (C56)', async () => {
    await using pair = await startPair();
    const lease = await pair.b.createLease({ ttlMs: 20_000 });
    let waiting: Promise<unknown> | undefined;
    await giveBack(pair.a, NAME, await reserved(pair.a, NAME));
    beforeMulti(
      pair.a,
      async () => {
        waiting = pair.b.acquire(NAME, lease, { waitMs: scaled(2_000) });
        await pair.a.untilWaiting(NAME, 1);
      },
      isThat('stands', pair.a),
    );
    await reserved(pair.a, NAME);
    expect(await waiting).toMatchObject({ status: 409, body: { code: 'lock-held', holder: { owner: 'ann' } } });
  });
});

describe('clients of other libraries', () => {
  test('stand in the same line, before it and behind it', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const before = await witness.standIn(NAME);
    const waiting = reserved(pair.a, NAME, { waitMs: 20_000, forMs: 2_000 });
    await pair.b.untilWaiting(NAME, 1);
    const behind = await witness.standIn(NAME);
    await witness.control.delete(before);
    const held = await waiting;
    expect((await witness.line(NAME)).map(({ path }) => path)).toEqual([expect.stringContaining('_c_'), behind]);
    await eventually('the stranger is first', async () => (await witness.line(NAME))[0]?.path === behind);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(held.reservedUntil) - CLOCK_MS);
  });

  test('write __REVOKE__ over its place: it stands all the same, until its end, and an extension mends it (C57)', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    const held = await reserved(pair.a, NAME, { forMs: 3_000 });
    const overwrite = async (): Promise<void> => {
      const [place] = await witness.line(NAME);
      await witness.control.setData(place?.path as string, REVOKE_MESSAGE, place?.stat.version);
    };
    await overwrite();
    expect((await pair.b.acquire(NAME, await pair.b.createLease())).status).toBe(409);
    expect((await extendBy(pair.b, NAME, held, 3_500)).status).toBe(200);
    expect(await reservationOf(pair.b, NAME)).toMatchObject({ reservation: { owner: 'ann' } });
    await overwrite();
    await eventually('it is free', () => isFree(pair.b, NAME));
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(held.reservedUntil) - CLOCK_MS);
    expect(await recordsOf(witness)).toEqual([]);
  });
});

describe('an extension', () => {
  test('that comes in between when it is freed keeps it (C57)', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, NAME, { forMs: 1_000 });
    const until = Date.parse(held.reservedUntil);
    for (const one of [pair.a, pair.b])
      beforeMulti(one, () => extendBy(pair.b, NAME, held, LONG_MS), isThat('frees', one));
    await eventually('its first end has passed', () => Date.now() > until + 500);
    await throughout('it stands', async () => (await reservationOf(pair.a, NAME)) !== undefined);
    expect((await giveBack(pair.a, NAME, held)).status).toBe(204);
  });

  test('after a replica believed in an earlier end is heeded by it', async () => {
    await using pair = await startPair();
    const held = await reserved(pair.a, NAME, { forMs: 5_000 });
    await extendBy(pair.b, NAME, held, LONG_MS);
    const { context } = pair.a.gateway;
    const [id] = (await context.control.getChildren(context.layout.reservationsOf('default'))).children;
    const wait = await freeIfDue(context, 'default', id as string, soon());
    expect(wait).toBeGreaterThan(LONG_MS / 2);
  });
});

/** Asks the recipe itself, where a test must decide what becomes of the answer. */
async function reserveDirectly(
  { gateway }: Replica,
  requestId: string,
  name = NAME,
  requester: Caller = PRESENT,
): Promise<Reserved> {
  const now = performance.now();
  const result = await reserve(gateway.context, gateway.recipes.reservation.bounds, {
    namespace: 'default',
    principal: 'anonymous',
    name,
    requestId,
    isAnonymous: false,
    owner: 'ann',
    reason: undefined,
    forMs: LONG_MS,
    waitMs: 0,
    keepPlace: false,
    receivedAt: now,
    hardDeadline: soon(),
    requester,
  });
  if (!result.held) throw new Error(`not reserved: ${result.why}`);
  return result;
}

describe('an answer that cannot be delivered', () => {
  test('gives the reservation back', async () => {
    await using pair = await startPair();
    await using witness = await Witness.start(pair.root);
    (await reserveDirectly(pair.a, newRequestId())).undelivered();
    await eventually('it is free', () => isFree(pair.b, NAME));
    expect(await recordsOf(witness)).toEqual([]);
  });

  test('gives it back although the reply to its last step was lost', async () => {
    await using cuttable = await startCuttable({ root: freshRoot() });
    const { replica, proxy } = cuttable;
    let lost: Promise<void> | undefined;
    beforeMulti(replica, () => void (lost = proxy.loseReply(OPCODE.multi)), isThat('stands', replica));
    const { alreadyHeld, undelivered } = await reserveDirectly(replica, newRequestId());
    await lost;
    expect(alreadyHeld).toBe(false);
    undelivered();
    await eventually('it is free', () => isFree(replica, NAME));
  });

  test('gives nothing back of which a repeated request was told (C58)', async () => {
    await using pair = await startPair();
    const requestId = newRequestId();
    const first = await reserveDirectly(pair.a, requestId);
    const again = await reserved(pair.b, NAME, { requestId });
    first.undelivered();
    await eventually('that has been tried', () => pair.a.gateway.context.cleanup.pending === 0);
    expect(again.alreadyHeld).toBe(true);
    expect(await reservationOf(pair.b, NAME)).toMatchObject({ holdId: again.holdId });
    // Nor does the one that was repeated.
    (await reserveDirectly(pair.a, requestId)).undelivered();
    await throughout('it stands', async () => (await reservationOf(pair.b, NAME)) !== undefined);
    expect((await giveBack(pair.b, NAME, again)).status).toBe(204);
  });

  test('gives no lock of Terraform back of which a repeated request was told (C58)', async () => {
    await using pair = await startPair();
    const [ID, name] = [newRequestId(), 'terraform.prod'];
    const first = await reserveDirectly(pair.a, ID, name);
    const body = { ID, Who: 'ann' };
    expect((await pair.b.call('POST', '/v1/terraform/prod/lock', { body })).status).toBe(200);
    first.undelivered();
    await eventually('that has been tried', () => pair.a.gateway.context.cleanup.pending === 0);
    expect(await reservationOf(pair.b, name)).toBeDefined();
  });

  test('gives nothing back that a repeated request has made in between (C58)', async () => {
    await using pair = await startPair();
    await giveBack(pair.a, NAME, await reserved(pair.a, NAME)); // the directories are there
    const requestId = newRequestId();
    const told: Reserved[] = [];
    const askAgain = async (): Promise<void> => void told.push(await reserveDirectly(pair.b, requestId));
    beforeMulti(pair.a, askAgain, isThat('stands', pair.a));
    told.push(await reserveDirectly(pair.a, requestId));
    expect(told.map(({ alreadyHeld }) => alreadyHeld)).toEqual([false, true]);
    for (const { undelivered } of told) undelivered();
    for (const { gateway } of [pair.a, pair.b])
      await eventually('that has been tried', () => gateway.context.cleanup.pending === 0);
    expect(await reservationOf(pair.b, NAME)).toBeDefined();
  });
});
