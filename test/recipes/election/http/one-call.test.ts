/** Lease and candidacy in one request: for a server that has no token yet, also when the answer is lost (C14). */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { spawnReplica, startPair, startReplica, type Replica } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { campaign, electionOf, leaseFor, speak, transfer } from '../client.js';

const TIMES = 4;

interface Candidacy extends LeaseHandle {
  candidateId: string;
  fencingToken: number;
}

function oneCall(replica: Pick<Replica, 'call'>, name: string, body: Record<string, unknown> = {}): Promise<Reply> {
  const request = { lease: { ttlMs: 20_000, label: 'boot' }, requestId: `boot-${name}-000000000000000000`, ...body };
  return replica.call('POST', `/v1/elections/${name}/campaign`, { body: request });
}

async function leaseIds(replica: Replica): Promise<string[]> {
  const { items } = (await replica.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
  return items.map(({ leaseId }) => leaseId);
}

test('a campaign that makes its lease answers with the token, which speaks for the candidacy at every replica (C14)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const led = await oneCall(a, 'one', { value: 'here' });
  expect([led.status, led.body]).toMatchObject([200, { elected: true, alreadyElected: false, ttlMs: 20_000 }]);
  const { candidateId, fencingToken, leaseId, leaseToken } = led.body as unknown as Candidacy;
  expect((await electionOf(b, 'one')).leader).toMatchObject({ candidateId, leaseId, label: 'boot', value: 'here' });
  const requestId = 'boot-one-000000000000000000';
  // By its requestId as well as by its candidateId.
  for (const which of [{ requestId }, { candidateId }])
    expect((await speak(b, 'one', 'acknowledge', { leaseToken }, which)).body).toMatchObject({ fencingToken });
  for (const again of [await oneCall(b, 'one'), await campaign(b, 'one', { leaseToken }, { requestId })])
    expect(again.body).toMatchObject({ alreadyElected: true, candidateId, fencingToken, leaseId });
  expect((await oneCall(b, 'one')).body).toMatchObject({ leaseToken });
  expect((await oneCall(b, 'one', { lease: { label: 'other' } })).body).toMatchObject({
    status: 409,
    code: 'conflict',
  });
  expect((await speak(a, 'one', 'resign', { leaseToken }, { requestId })).status).toBe(204);
  expect((await electionOf(b, 'one')).leader).toBeNull();
  expect(await leaseIds(a)).toEqual([leaseId]);
});

test('who does not lead yet stands, and has its token; who will not stand leaves no lease (C14)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const first = await leaseFor(a);
  await campaign(a, 'two', first);
  const standing = await oneCall(b, 'two');
  expect([standing.status, standing.body]).toMatchObject([202, { elected: false, position: 1 }]);
  const { candidateId, leaseId, leaseToken } = standing.body as unknown as Candidacy;
  expect((await oneCall(a, 'two')).body).toMatchObject({ position: 1, candidateId, leaseToken });
  const requestId = 'refused-00000000000000000000';
  const refused = await oneCall(b, 'two', { keepPlace: false, requestId, waitMs: 50 });
  expect(refused.body).toMatchObject({ status: 409, code: 'lock-held', holder: { leaseId: first.leaseId } });
  expect((await leaseIds(a)).sort()).toEqual([first.leaseId, leaseId].sort());
  expect((await speak(a, 'two', 'resign', first)).status).toBe(204);
  expect((await oneCall(a, 'two')).body).toMatchObject({ elected: true, candidateId, leaseToken });
});

test('one campaign that is sent many times at once makes one candidacy and one lease (C14)', async () => {
  await using pair = await startPair();
  for (const [name, body] of Object.entries({ waits: { waitMs: 5_000 }, looks: {}, leaves: { keepPlace: false } })) {
    const sent = Array.from({ length: TIMES }, (_, i) => oneCall(i % 2 === 0 ? pair.a : pair.b, name, body));
    const replies = await Promise.all(sent);
    expect(replies.map(({ status, body }) => (status === 200 ? 200 : body))).toEqual(Array(TIMES).fill(200));
    for (const member of ['candidateId', 'fencingToken', 'leaseId', 'leaseToken'])
      expect(new Set(replies.map((reply) => reply.body[member])).size, member).toBe(1);
    const { leaseId, leaseToken } = replies[0]?.body as unknown as Candidacy;
    await eventually('the leases of the others are gone', async () => (await leaseIds(pair.a)).join() === leaseId);
    await pair.a.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
    expect((await electionOf(pair.b, name)).candidateCount).toBe(0);
  }
});

test('is found again when its replica was killed before it answered, and when it was overtaken while it waited', async () => {
  const root = freshRoot();
  await using doomed = await spawnReplica({ root });
  await using other = await startReplica({ root });
  const [first, third] = [await leaseFor(other), await leaseFor(other)];
  await campaign(other, 'three', first);
  const lost = oneCall(doomed, 'three', { waitMs: 50_000 }).catch(() => 'lost');
  await eventually('it stands', async () => (await electionOf(other, 'three')).candidateCount === 2);
  await doomed.kill();
  expect(await lost).toBe('lost');
  const { candidates } = await electionOf(other, 'three');
  const repeated = oneCall(other, 'three', { waitMs: 50_000 });
  const { candidateId } = (await campaign(other, 'three', third)).body as { candidateId: string };
  await eventually('the repetition waits', async () => (await other.metric('postern_waiters')) === 1);
  expect((await transfer(other, 'three', { candidateId })).body).toMatchObject({ leads: true, overtaken: 1 });
  await eventually('it stands again', async () => (await electionOf(other, 'three')).candidateCount === 2);
  expect((await speak(other, 'three', 'resign', third)).status).toBe(204);
  const elected = (await repeated).body as unknown as Candidacy;
  expect(elected).toMatchObject({ elected: true });
  expect((await other.heartbeat(elected)).body).toMatchObject({
    lost: [{ holdId: candidates[1]?.candidateId, reason: 'overtaken' }],
  });
});

test('is refused with what is wrong: two leases, none of its own requestId, or one that can be guessed', async () => {
  await using replica = await startReplica();
  const { leaseToken } = await leaseFor(replica);
  const both = { lease: {}, requestId: 'boot-00000000000000000000' };
  const wrong = [
    [await campaign(replica, 'four', { leaseToken }, both), 'lease'],
    [await oneCall(replica, 'four', { requestId: undefined }), 'requestId'],
    [await oneCall(replica, 'four', { requestId: 'short' }), 'requestId'],
    [await oneCall(replica, 'four', { lease: { ttlMs: 1 } }), 'ttlMs'],
  ] as const;
  for (const [reply, field] of wrong) expect([reply.status, reply.body]).toMatchObject([422, { field }]);
  const none = await replica.call('POST', '/v1/elections/four/campaign', { body: {} });
  expect([none.status, none.body]).toMatchObject([400, { code: 'lease-token-required' }]);
  expect((await electionOf(replica, 'four')).candidateCount).toBe(0);
});
