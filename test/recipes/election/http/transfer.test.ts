/** Leadership that is moved to a stated candidate. */
import { expect, test } from 'vitest';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import type { LeaseHandle, Reply } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { scaled } from '../../../support/timing.js';
import { campaign, electionOf, leaseFor, speak, transfer } from '../client.js';

async function stand(replica: Replica, name: string, lease: LeaseHandle): Promise<string> {
  return ((await campaign(replica, name, lease)).body as { candidateId: string }).candidateId;
}

async function newsOf(replica: Replica, lease: LeaseHandle): Promise<Record<string, unknown>> {
  return (await replica.heartbeat(lease)).body as Record<string, unknown>;
}

async function standing(replica: Replica, name: string): Promise<string[]> {
  return (await electionOf(replica, name)).candidates.map(({ candidateId }) => candidateId);
}

test('a transfer makes the stated candidate the leader, with a higher token; those before it stand no more, and are told (C80)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const leases = await Promise.all([1, 2, 3, 4].map(() => leaseFor(a)));
  const [first, second, third, fourth] = leases as [LeaseHandle, LeaseHandle, LeaseHandle, LeaseHandle];
  const ids: string[] = [];
  for (const lease of leases) ids.push(await stand(a, 'crown', lease));
  const { fencingToken } = (await electionOf(a, 'crown')).leader as { fencingToken: number };

  const reply = await transfer(b, 'crown', { candidateId: ids[2] });
  expect([reply.status, reply.body]).toEqual([200, { candidateId: ids[2], leads: true, overtaken: 1 }]);
  expect(await standing(a, 'crown')).toEqual([ids[2], ids[3]]);
  const { leader } = await electionOf(a, 'crown');
  expect(leader?.['fencingToken']).toBeGreaterThan(fencingToken);
  expect((await speak(b, 'crown', 'acknowledge', third)).status).toBe(200);

  const lost = { kind: 'election', name: 'crown' };
  expect(await newsOf(b, first)).toMatchObject({
    revocations: [],
    lost: [{ ...lost, holdId: ids[0], reason: 'broken' }],
  });
  expect(await newsOf(b, second)).toMatchObject({ lost: [{ ...lost, holdId: ids[1], reason: 'overtaken' }] });
  expect(await newsOf(b, fourth)).toMatchObject({ revocations: [], lost: [] });
  // Each candidate is two nodes, and of those who stand no more both have gone.
  const { control, layout } = a.gateway.context;
  expect((await control.getChildren(layout.line('election', 'default', 'crown'))).children).toHaveLength(4);
  // Who was overtaken comes behind all others.
  expect((await campaign(a, 'crown', second)).body).toMatchObject({ elected: false, position: 2 });
});

test('a campaign that waits and is overtaken stands again by itself, and leads after the other one (C80)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second, third] = await Promise.all([leaseFor(a), leaseFor(b, { ttlMs: 5_000 }), leaseFor(a)]);
  await stand(a, 'again', first);
  await campaign(b, 'again', second, { value: 'there' });
  const waiting = campaign(b, 'again', second, { waitMs: 50_000 });
  await eventually('it waits', async () => (await b.metric('postern_waiters')) === 1);
  const heir = await stand(a, 'again', third);
  const { candidates } = await electionOf(a, 'again');
  expect((await transfer(a, 'again', { candidateId: heir })).body).toMatchObject({ leads: true, overtaken: 1 });
  const { fencingToken } = (await electionOf(a, 'again')).leader as { fencingToken: number };
  await eventually('it stands again', async () => (await electionOf(a, 'again')).candidateCount === 2);
  expect((await speak(a, 'again', 'resign', third)).status).toBe(204);
  const elected = (await waiting).body as { elected: boolean; candidateId: string; fencingToken: number };
  expect(elected.elected).toBe(true);
  expect(elected.candidateId).not.toBe(candidates[1]?.candidateId);
  expect(elected.fencingToken).toBeGreaterThan(fencingToken);
  expect((await electionOf(a, 'again')).leader).toMatchObject({ value: 'there' });
});

test('a campaign that waits and is resigned does not stand again', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second, third] = await Promise.all([leaseFor(a), leaseFor(b), leaseFor(a)]);
  await stand(a, 'meant', first);
  const waiting = campaign(b, 'meant', second, { waitMs: 50_000 });
  await eventually('two stand', async () => (await electionOf(a, 'meant')).candidateCount === 2);
  await stand(a, 'meant', third);
  expect((await speak(b, 'meant', 'resign', second)).status).toBe(204);
  expect((await waiting).body).toMatchObject({ status: 409, code: 'conflict' });
  expect((await electionOf(a, 'meant')).candidateCount).toBe(2);
});

test('with a grace the leader is asked, and leads until it is over; a candidate that resigns before leaves it in the lead (C80)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second, third] = await Promise.all([leaseFor(a), leaseFor(b), leaseFor(a)]);
  const old = await stand(a, 'grace', first);
  const gone = await stand(b, 'grace', second);
  const graceMs = scaled(1_000);
  const asked = await transfer(a, 'grace', { candidateId: gone, graceMs, reason: 'other site' });
  expect(asked.body).toEqual({ candidateId: gone, leads: false, overtaken: 0, breakAt: expect.any(String) as string });
  expect(await newsOf(b, first)).toMatchObject({ revocations: [{ holdId: old, reason: 'other site' }], lost: [] });
  expect((await speak(b, 'grace', 'resign', second)).status).toBe(204);
  await eventually(
    'it is asked no more',
    async () => ((await newsOf(b, first))['revocations'] as unknown[]).length === 0,
  );
  expect(Date.now()).toBeGreaterThan(Date.parse((asked.body as { breakAt: string }).breakAt) - 50);
  expect((await electionOf(b, 'grace')).leader).toMatchObject({ candidateId: old });
  expect((await newsOf(b, first))['lost']).toEqual([]);

  const heir = await stand(a, 'grace', third);
  await transfer(b, 'grace', { candidateId: heir, graceMs });
  await eventually('it leads', async () => (await electionOf(b, 'grace')).leader?.['candidateId'] === heir);
  expect(await newsOf(b, first)).toMatchObject({ revocations: [], lost: [{ holdId: old, reason: 'broken' }] });
});

test('a leader that is revoked with a grace as well goes in any case (C80)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second] = await Promise.all([leaseFor(a), leaseFor(b)]);
  await stand(a, 'both', first);
  const candidateId = await stand(b, 'both', second);
  await transfer(a, 'both', { candidateId, graceMs: 60_000 });
  await b.expect(200, 'POST', '/v1/elections/both/revoke', { body: { graceMs: scaled(300) } });
  expect((await speak(b, 'both', 'resign', second)).status).toBe(204);
  await eventually('nobody leads', async () => (await electionOf(a, 'both')).leader === null);
});

test('what cannot be transferred is refused, and nothing is changed: nobody under that id, and nodes of other programs', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const [first, second] = await Promise.all([leaseFor(a), leaseFor(b)]);
  const leader = await stand(a, 'refused', first);
  const { control, layout } = a.gateway.context;
  const prefix = `${layout.line('election', 'default', 'refused')}/_c_11111111-2222-4333-4444-555555555555-latch-`;
  await control.create(prefix, Buffer.from('theirs'), { mode: 'ephemeral-sequential' });
  const candidateId = await stand(b, 'refused', second);
  const before = await standing(a, 'refused');

  const refusals: [Record<string, unknown>, number, string, string][] = [
    [{ candidateId }, 409, 'conflict', 'made by a client other than Postern'],
    [{ candidateId: 'AwAA' }, 409, 'not-holder', 'under this candidateId'],
    [{}, 422, 'invalid', 'candidateId'],
    [{ candidateId, graceMs: -1 }, 422, 'invalid', '-1'],
  ];
  for (const [body, status, code, detail] of refusals) {
    const reply: Reply = await transfer(b, 'refused', body);
    expect([reply.status, reply.body]).toMatchObject([status, { code }]);
    expect((reply.body as { detail: string }).detail).toContain(detail);
  }
  expect((await transfer(b, 'refused', { candidateId: leader })).body).toEqual({
    candidateId: leader,
    leads: true,
    overtaken: 0,
  });
  expect(await standing(a, 'refused')).toEqual(before);
  expect((await speak(a, 'refused', 'resign', first)).status).toBe(204);
  const led = await transfer(b, 'refused', { candidateId });
  expect([led.status, (led.body as { detail: string }).detail]).toEqual([
    409,
    expect.stringContaining('is the leader'),
  ]);
});
