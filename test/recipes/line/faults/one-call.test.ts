/** Lease and lock in one call: several tries share a lease that no client has the token of yet. */
import { expect, test } from 'vitest';
import { acquireLockWithLease } from '../../../../src/recipes/lock/lock.js';
import { eventually, passed, throughout } from '../../../support/eventually.js';
import { startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { timing } from '../../../support/timing.js';
import { PRESENT, soon, startCuttable, Witness } from '../../../support/scene.js';

const TTL_MS = 5_000;
const ONE_CALL = { lease: { ttlMs: TTL_MS }, requestId: 'job-1-0000000000000000' };

test('a repeated one-call acquire answers the same hold and the same token (C14)', async () => {
  await using pair = await startPair();
  const first = await oneCall(pair.a, 'repeat');
  const second = await oneCall(pair.b, 'repeat');
  expect(second).toMatchObject({ ...first, alreadyHeld: true, waitedMs: second.waitedMs, expiresAt: second.expiresAt });
});

test('a repeated request for a lease answers the same lease, also when the first answer was lost (C14)', async () => {
  await using pair = await startPair();
  const first = await pair.a.createLease({ ttlMs: TTL_MS, requestId: 'boot-00000000000000000' });
  const second = await pair.b.createLease({ ttlMs: TTL_MS, requestId: 'boot-00000000000000000' });
  expect(second).toMatchObject({ leaseId: first.leaseId, leaseToken: first.leaseToken });
});

test('a try that its client has left does not end the lease that the repeated call was answered with (C1)', async () => {
  const root = freshRoot();
  await using cuttable = await startCuttable({ root });
  await using b = await startReplica({ root });
  await using witness = await Witness.start(root);
  const { replica: a, proxy } = cuttable;
  const holder = await b.createLease({ ttlMs: TTL_MS });
  await b.hold('left', holder);
  const gone = new AbortController();
  const left = a
    .acquire('left', undefined, { ...ONE_CALL, waitMs: 20_000 }, { signal: gone.signal })
    .catch(() => 'left');
  await witness.untilWritten('left', 1);
  const [, place] = await witness.line('left');
  proxy.suspend(); // A learns nothing from here on
  const repeated = oneCall(b, 'left', { waitMs: 20_000 });
  await witness.untilWritten('left', 2); // B has taken it over
  await b.release('left', holder);
  const { fencingToken, leaseToken } = await repeated;
  expect(fencingToken).toBe(place?.stat.czxid);
  gone.abort();
  expect(await left).toBe('left');
  await eventually('A has noticed', async () => (await a.metric('postern_waiters')) === 0);
  proxy.heal();
  await eventually('A is done with it', () => a.gateway.context.lines.size === 0);
  await throughout('the hold stays', async () => (await witness.holder('left')) === fencingToken);
  expect((await b.heartbeat({ leaseToken })).status).toBe(200);
});

test('a one-call grant that could not be delivered does not end the lease that the repeated call was answered with (C1)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const first = await directly(pair.a, 'undelivered');
  if (!first.result.held) throw new Error('a free lock was refused');
  const repeated = await oneCall(pair.b, 'undelivered');
  expect(repeated).toMatchObject({ alreadyHeld: true, leaseToken: first.leaseToken });
  first.result.undelivered();
  await throughout('the hold stays', async () => (await witness.holder('undelivered')) === repeated.fencingToken);
  expect((await pair.b.heartbeat(repeated)).status).toBe(200);
});

test('a one-call grant that could not be delivered ends with its lease (C14)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { result, leaseToken } = await directly(pair.a, 'nobody');
  if (!result.held) throw new Error('a free lock was refused');
  result.undelivered();
  await eventually('the lock is free', async () => (await witness.line('nobody')).length === 0);
  await eventually('the lease has ended', async () => (await pair.b.heartbeat({ leaseToken })).status === 410);
});

test('a late repetition that is refused does not end the lease that its client uses for other things (C14)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const mine = await oneCall(pair.a, 'mine');
  const other = await pair.a.hold('other', mine);
  const rival = await pair.a.createLease({ ttlMs: TTL_MS });
  const { control } = pair.b.gateway.context;
  // The repetition has found the lease by its place, and is held up; meanwhile the place goes to somebody else.
  const read = control.getData.bind(control);
  control.getData = async (...args) => {
    const node = await read(...args);
    control.getData = read;
    await pair.a.release('mine', mine, { holdId: mine.holdId });
    await pair.a.hold('mine', rival);
    return node;
  };
  const late = await pair.b.acquire('mine', undefined, ONE_CALL);
  expect(late.body).toMatchObject({ code: 'lock-held' });
  expect((await pair.a.heartbeat(mine)).status).toBe(200);
  expect(await witness.holder('other')).toBe(other.fencingToken);
});

test('a try that gives up while another one lines up with its lease does not end it under that one (C1)', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const { a, b } = pair;
  const holder = await a.createLease({ ttlMs: TTL_MS });
  await a.hold('crossing', holder);
  const gone = new AbortController();
  const left = a
    .acquire('crossing', undefined, { ...ONE_CALL, waitMs: 20_000 }, { signal: gone.signal })
    .catch(() => 'left');
  await b.untilWaiting('crossing', 1);
  let ending = false;
  const { leases } = a.gateway.context;
  const end = leases.end.bind(leases);
  leases.end = async (...args) => {
    ending = true;
    await passed(timing.quietMs); // a slow network between giving up and the end of the lease
    return end(...args);
  };
  const { leases: others } = b.gateway.context;
  const open = others.openStored.bind(others);
  others.openStored = async (...args) => {
    others.openStored = open;
    const lease = await open(...args); // the repetition has found the lease of the first try …
    gone.abort();
    await eventually('A gives up', () => ending);
    await a.release('crossing', holder);
    return lease; // … and goes on with it in the worst moment
  };
  const { fencingToken, leaseToken } = await oneCall(b, 'crossing', { waitMs: 20_000 });
  expect(await left).toBe('left');
  await eventually('A is done with it', () => a.gateway.context.lines.size === 0);
  await throughout('the hold stays', async () => (await witness.holder('crossing')) === fencingToken);
  expect((await b.heartbeat({ leaseToken })).status).toBe(200);
});

test('a lease ends that was made for a client that has gone before it stood in line', async () => {
  await using replica = await startReplica();
  const { leases } = replica.gateway.context;
  const create = leases.create.bind(leases);
  for (const path of ['locks/gone', 'elections/gone', 'semaphores/gone']) {
    const gone = new AbortController();
    let leaseToken = '';
    leases.create = async (...args) => {
      const granted = await create(...args);
      ({ leaseToken } = granted);
      gone.abort();
      await passed(timing.quietMs); // until the replica has heard of it
      return granted;
    };
    const verb = path.startsWith('elections') ? 'campaign' : 'acquire';
    const limit = path.startsWith('semaphores') ? { limit: 1 } : {};
    const body = { lease: { ttlMs: 60_000 }, requestId: ONE_CALL.requestId, ...limit };
    const asked = replica.call('POST', `/v1/${path}/${verb}`, { body, signal: gone.signal }).catch(() => 'left');
    expect(await asked).toBe('left');
    leases.create = create;
    await eventually('it ends', async () => (await replica.heartbeat({ leaseToken })).status === 410);
  }
});

interface OneCall {
  holdId: string;
  fencingToken: number;
  leaseToken: string;
  waitedMs: number;
  expiresAt: string;
}

async function oneCall(replica: Replica, name: string, body: Record<string, unknown> = {}): Promise<OneCall> {
  const answer: unknown = await replica.expect(200, 'POST', `/v1/locks/${name}/acquire`, {
    body: { ...ONE_CALL, ...body },
  });
  return answer as OneCall;
}

function directly(replica: Replica, name: string): ReturnType<typeof acquireLockWithLease> {
  const newLease = { principal: 'anonymous', namespace: 'default', ttlMs: TTL_MS, label: undefined };
  return acquireLockWithLease(replica.gateway.context, newLease, {
    name,
    requestId: ONE_CALL.requestId,
    waitMs: 0,
    keepPlace: false,
    data: undefined,
    receivedAt: performance.now(),
    hardDeadline: soon(),
    requester: PRESENT,
  });
}
