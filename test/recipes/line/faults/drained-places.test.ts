/** What becomes of a place whose wait was ended before its time, when nobody asks for it any more. */
import { expect, test } from 'vitest';
import type { Client, LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually, passed } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { Witness } from '../../../support/scene.js';
import { scaled } from '../../../support/timing.js';

const TTL_MS = 40_000;
/** A place is abandoned 5 s after its wait, and looked at every 5 s. */
const ABANDONED_WITHIN_MS = scaled(17_000);
/** After that somebody who waits has looked at whoever stands before it. */
const LOOKED_AT_WITHIN_MS = scaled(6_000);
/** So long that a place which still says so is found by no test. */
const LONG_WAIT_MS = 55_000;

test(
  'a place that a draining replica kept, and that nobody asks for, is told as what it is, and is passed by in time (C3)',
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const leases = await Promise.all([1, 2, 3].map(() => pair.b.createLease({ ttlMs: TTL_MS })));
    const [holder, silent, other] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    await pair.b.hold('drained', holder);
    const waiting = pair.a.acquire('drained', silent, { waitMs: LONG_WAIT_MS });
    await pair.b.untilWaiting('drained', 1);
    const stopped = pair.a.gateway.stop();
    expect((await waiting).body).toMatchObject({ status: 503, code: 'draining', placeKept: true });
    await stopped;
    await pair.b.release('drained', holder);

    expect(await pair.b.showLock('drained')).toMatchObject({ holders: [], waiters: [{ leaseId: silent.leaseId }] });
    const refused = (await pair.b.acquire('drained', other)).body;
    expect(refused).toMatchObject({ code: 'lock-held', next: { leaseId: silent.leaseId } });
    expect(refused.holder).toBeUndefined();
    expect(refused.detail).toMatch(`Nobody holds lock "drained", but lease ${silent.leaseId} is first in line`);
    const revoked = await pair.b.call('POST', '/v1/locks/drained/revoke', { body: {} });
    expect(revoked.body).toMatchObject({ status: 409, code: 'not-holder' });
    expect(revoked.body.detail).toMatch(`Lease ${silent.leaseId} is first in line, and has not taken it up yet.`);

    const next = pair.b.hold('drained', other, { waitMs: LONG_WAIT_MS });
    await eventually('the next one holds', () => next, { withinMs: ABANDONED_WITHIN_MS });
    expect((await pair.b.heartbeat(silent)).status).toBe(200);
  },
);

test(
  'a place whose replica drains after somebody behind it has looked at it is passed by in time too (C3)',
  { timeout: scaled(60_000) },
  async () => {
    await using pair = await startPair();
    const leases = await Promise.all([1, 2, 3].map(() => pair.b.createLease({ ttlMs: TTL_MS })));
    const [holder, silent, other] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
    await pair.b.hold('drained', holder);
    const waiting = pair.a.acquire('drained', silent, { waitMs: LONG_WAIT_MS });
    await pair.b.untilWaiting('drained', 1);
    const next = pair.b.hold('drained', other, { waitMs: LONG_WAIT_MS });
    await pair.b.untilWaiting('drained', 2);
    await passed(LOOKED_AT_WITHIN_MS);
    const stopped = pair.a.gateway.stop();
    expect((await waiting).body).toMatchObject({ code: 'draining', placeKept: true });
    await stopped;
    await pair.b.release('drained', holder);
    await eventually('the next one holds', () => next, { withinMs: ABANDONED_WITHIN_MS });
  },
);

test('the same goes for a campaign that does not want its place kept (C3)', { timeout: scaled(60_000) }, async () => {
  await using pair = await startPair();
  const leases = await Promise.all([1, 2, 3].map(() => pair.b.createLease({ ttlMs: TTL_MS })));
  const [leader, silent, other] = leases as [LeaseHandle, LeaseHandle, LeaseHandle];
  const election = '/v1/elections/drained';
  const campaign = (client: Client, { leaseToken }: LeaseHandle, body: object): Promise<Reply> =>
    client.call('POST', `${election}/campaign`, { leaseToken, body });
  expect((await campaign(pair.b, leader, {})).body).toMatchObject({ elected: true });
  const campaigning = campaign(pair.a, silent, { waitMs: LONG_WAIT_MS, keepPlace: false });
  await eventually('it stands', async () => (await pair.b.call('GET', election)).body.candidateCount === 2);
  const stopped = pair.a.gateway.stop();
  expect((await campaigning).body).toMatchObject({ status: 503, code: 'draining', placeKept: true });
  await stopped;
  await pair.b.expect(204, 'POST', `${election}/resign`, { leaseToken: leader.leaseToken, body: {} });
  const next = campaign(pair.b, other, { waitMs: LONG_WAIT_MS });
  const elected = await eventually('the next one leads', () => next, { withinMs: ABANDONED_WITHIN_MS });
  expect(elected.body).toMatchObject({ elected: true, leaseId: other.leaseId });
});

test('a place that was kept for a client which hung up says that its wait is over (C3)', async () => {
  const root = freshRoot();
  await using pair = await startPair({ root });
  await using witness = await Witness.start(root);
  const [holder, me] = [await pair.a.createLease({ ttlMs: TTL_MS }), await pair.a.createLease({ ttlMs: TTL_MS })];
  await pair.a.hold('hung-up', holder);
  const gone = new AbortController();
  const asked = { waitMs: LONG_WAIT_MS, keepPlace: true };
  const waiting = pair.a.acquire('hung-up', me, asked, { signal: gone.signal }).catch(() => 'gone');
  await pair.a.untilWaiting('hung-up', 1);
  const waitUntil = async (): Promise<number> => (await witness.line('hung-up'))[1]?.record?.waitUntil ?? NaN;
  const announced = await waitUntil();
  gone.abort();
  expect(await waiting).toBe('gone');
  await eventually('it says so', async () => (await waitUntil()) < announced - LONG_WAIT_MS / 2);
});
