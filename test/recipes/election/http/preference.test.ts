/** Candidates that are preferred more than others. */
import { expect, test } from 'vitest';
import { LOOKED_AT, PASSED_MAX } from '../../../../src/recipes/election/preference.js';
import { startPair, type Replica } from '../../../support/start-gateway.js';
import type { LeaseHandle } from '../../../support/http/client.js';
import { eventually } from '../../../support/eventually.js';
import { campaign, electionOf, leaseFor, speak, transfer } from '../client.js';

interface Stood {
  lease: LeaseHandle;
  candidateId: string;
}

async function stand(replica: Replica, name: string, preference?: number, label = ''): Promise<Stood> {
  const lease = await leaseFor(replica, { label });
  const { body } = await campaign(replica, name, lease, preference === undefined ? {} : { preference });
  return { lease, candidateId: (body as Stood).candidateId };
}

async function standing(replica: Replica, name: string): Promise<string[]> {
  return (await electionOf(replica, name)).candidates.map(({ candidateId }) => candidateId);
}

async function preferences(replica: Replica, name: string): Promise<number[]> {
  const { candidates } = await electionOf(replica, name);
  return candidates.map((candidate) => (candidate as unknown as { preference: number }).preference);
}

async function lostBy(replica: Replica, { lease }: Stood): Promise<unknown[]> {
  return ((await replica.heartbeat(lease)).body as { lost: unknown[] }).lost;
}

test('who is preferred more leads next, first come first among equals, and the leader is not deposed (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const leader = await stand(a, 'site');
  const low = await stand(b, 'site');
  const equal = await stand(a, 'site', 5);
  const later = await stand(b, 'site', 5);
  const most = await stand(b, 'site', 1_000);
  const { leader: leads } = await electionOf(a, 'site');
  expect(leads).toMatchObject({ candidateId: leader.candidateId });
  // Those of them that wait for nothing are told, and stand anew behind.
  expect(await standing(a, 'site')).toEqual([leader.candidateId, most.candidateId]);
  for (const passed of [low, equal, later])
    expect(await lostBy(a, passed)).toMatchObject([{ holdId: passed.candidateId, reason: 'overtaken' }]);
  expect(await lostBy(a, leader)).toEqual([]);
  for (const { lease } of [equal, low])
    await campaign(a, 'site', lease, lease === equal.lease ? { preference: 5 } : {});
  expect((await campaign(b, 'site', later.lease, { preference: 5 })).body).toMatchObject({ position: 3 });
  expect((await campaign(b, 'site', low.lease)).body).toMatchObject({ position: 4 });
  expect(await preferences(b, 'site')).toEqual([0, 1_000, 5, 5, 0]);

  const tokens = [leads?.['fencingToken'] as number];
  for (const { lease } of [leader, most, equal, later]) {
    expect((await speak(a, 'site', 'resign', lease)).status).toBe(204);
    tokens.push((await electionOf(b, 'site')).leader?.['fencingToken'] as number);
  }
  expect(tokens).toEqual(tokens.toSorted((x, y) => x - y));
  expect((await speak(a, 'site', 'acknowledge', low.lease)).status).toBe(200);
});

test('a campaign that waits and is passed stands again by itself, with its value, and its lease has nothing left to be told (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const leader = await stand(a, 'again');
  const [here, there] = [await leaseFor(a), await leaseFor(b, { ttlMs: 5_000 })];
  const waiting = [
    campaign(a, 'again', here, { waitMs: 50_000, value: 'here', preference: 3 }),
    campaign(b, 'again', there, { waitMs: 50_000, value: 'there' }),
  ];
  await eventually('three stand', async () => (await electionOf(a, 'again')).candidateCount === 3);
  const preferred = await stand(a, 'again', 7);
  await eventually('all stand', async () => (await electionOf(a, 'again')).candidateCount === 4);
  expect(await preferences(a, 'again')).toEqual([0, 7, 3, 0]);
  for (const { lease } of [leader, preferred]) await speak(a, 'again', 'resign', lease);
  const first = (await waiting[0])?.body as { elected: boolean; fencingToken: number };
  expect(first.elected).toBe(true);
  expect((await electionOf(b, 'again')).leader).toMatchObject({ value: 'here' });
  await speak(a, 'again', 'resign', here);
  expect((await waiting[1])?.body).toMatchObject({ elected: true });
  expect((await electionOf(b, 'again')).leader).toMatchObject({ value: 'there' });
  for (const lease of [here, there]) expect((await a.heartbeat(lease)).body).toMatchObject({ lost: [] });
});

test('nobody makes way more often than the bound says, whether its campaign waits or not (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await stand(a, 'firm');
  const lease = await leaseFor(a);
  const waiting = campaign(a, 'firm', lease, { waitMs: 50_000 });
  await eventually('it stands', async () => (await electionOf(a, 'firm')).candidateCount === 2);
  for (let passed = 1; passed <= PASSED_MAX; passed += 1) {
    const rival = await stand(a, 'firm', 1);
    await eventually('it stands again', async () => (await standing(a, 'firm')).length === 3);
    expect((await standing(a, 'firm'))[1]).toBe(rival.candidateId);
    await speak(a, 'firm', 'resign', rival.lease);
  }
  const last = await stand(b, 'firm', 1_000);
  expect((await standing(a, 'firm'))[2]).toBe(last.candidateId);
  await speak(a, 'firm', 'resign', lease);
  await waiting;

  const polls = await leaseFor(b);
  await stand(b, 'polled');
  for (let passed = 1; passed <= PASSED_MAX; passed += 1) {
    await campaign(b, 'polled', polls);
    const rival = await stand(a, 'polled', 1);
    expect((await standing(a, 'polled'))[1]).toBe(rival.candidateId);
    await speak(a, 'polled', 'resign', rival.lease);
  }
  await campaign(b, 'polled', polls);
  await stand(a, 'polled', 1_000);
  expect(await preferences(a, 'polled')).toEqual([0, 0, 1_000]);
});

test('one campaign passes a bounded number of others (C96)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const lease = await leaseFor(a);
  for (let i = 0; i < LOOKED_AT + 2; i += 1) await campaign(a, 'many', lease, { requestId: `r${i}` });
  await stand(b, 'many', 1);
  // The leader, the one too many, and the one who has passed all others.
  expect(await preferences(b, 'many')).toEqual([0, 0, 1]);
});

test('candidates of other programs are not passed, nor the one that a transfer has named', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  const leader = await stand(a, 'theirs');
  const { control, layout } = a.gateway.context;
  const prefix = `${layout.line('election', 'default', 'theirs')}/_c_11111111-2222-4333-4444-555555555555-latch-`;
  await control.create(prefix, Buffer.from('theirs'), { mode: 'ephemeral-sequential' });
  await stand(b, 'theirs');
  await stand(b, 'theirs', 1);
  expect(await preferences(a, 'theirs')).toEqual([0, 0, 1]);
  expect((await standing(a, 'theirs'))[0]).toBe(leader.candidateId);

  const old = await stand(a, 'heir');
  const heir = await stand(b, 'heir');
  await transfer(a, 'heir', { candidateId: heir.candidateId, graceMs: 60_000 });
  await stand(a, 'heir');
  const preferred = await stand(b, 'heir', 9);
  expect(await standing(a, 'heir')).toEqual([old.candidateId, heir.candidateId, preferred.candidateId]);
});

test('a place keeps the preference that it came with; an impossible one is refused', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await stand(a, 'kept');
  const low = await stand(a, 'kept', 1);
  const again = await campaign(b, 'kept', low.lease, { preference: 9 });
  expect(again.body).toMatchObject({ candidateId: low.candidateId, position: 1 });
  expect(await preferences(b, 'kept')).toEqual([0, 1]);
  const { items } = (await a.expect(200, 'GET', '/v1/elections/kept/candidates')) as { items: unknown[] };
  expect(items).toMatchObject([{ preference: 0 }, { preference: 1, position: 1 }]);
  for (const preference of [-1, 1_001, 0.5, '1', null]) {
    const refused = await campaign(a, 'kept', low.lease, { preference });
    expect([refused.status, refused.body]).toMatchObject([422, { code: 'invalid' }]);
    expect((refused.body as { detail: string }).detail).toContain('preference');
  }
});
