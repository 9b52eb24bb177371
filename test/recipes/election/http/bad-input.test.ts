/** What elections refuse, before anything is done. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { campaign, electionOf, leaseFor, speak } from '../client.js';

test('a campaign with something wrong in it is refused, named, and stands nowhere', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  for (const [body, field] of [
    [{ value: 'x'.repeat(4_096) }, 'value'],
    [{ waitMs: -1 }, 'waitMs'],
    [{ keepPlace: 'yes' }, 'keepPlace'],
    [{ requestId: 'not a name' }, 'requestId'],
    [{ data: 1 }, 'data'],
    [{ lease: {} }, 'lease'],
  ] as const) {
    const refused = await campaign(pair.a, 'boss', lease, body);
    expect(refused.status, field).toBe(422);
    expect(refused.body, field).toMatchObject({ code: 'invalid', field });
  }
  expect((await campaign(pair.a, 'a%2Fb', lease)).status).toBe(422);
  expect(await electionOf(pair.b, 'boss')).toMatchObject({ leader: null, candidates: [], candidateCount: 0 });
});

test('a leader says nothing without a value, nor with one that is too large, and keeps the one it has', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  await campaign(pair.a, 'boss', lease, { value: 'kept' });
  for (const body of [{}, { value: 'x'.repeat(4_096) }, { value: 1, more: 2 }])
    expect((await speak(pair.a, 'boss', 'proclaim', lease, body)).status).toBe(422);
  expect((await speak(pair.a, 'boss', 'acknowledge', lease, { value: 1 })).status).toBe(422);
  expect((await electionOf(pair.b, 'boss')).leader).toMatchObject({ value: 'kept', acknowledged: false });
});

test('nobody campaigns or speaks without a lease, nor with one that has ended', async () => {
  await using pair = await startPair();
  const lease = await leaseFor(pair.a);
  await campaign(pair.a, 'boss', lease);
  for (const verb of ['campaign', 'proclaim', 'acknowledge', 'resign']) {
    const body = verb === 'proclaim' ? { value: 1 } : {};
    const reply = await pair.b.call('POST', `/v1/elections/boss/${verb}`, { body });
    expect(reply.status, verb).toBe(400);
    expect(reply.body, verb).toMatchObject({ code: 'lease-token-required' });
  }
  await pair.a.endLease(lease);
  expect((await campaign(pair.b, 'boss', lease)).status).toBe(410);
  expect((await speak(pair.b, 'boss', 'proclaim', lease, { value: 1 })).status).toBe(410);
  expect((await speak(pair.b, 'boss', 'acknowledge', lease)).status).toBe(410);
  expect((await speak(pair.b, 'boss', 'resign', lease)).status).toBe(410);
  expect((await electionOf(pair.b, 'boss')).leader).toBeNull();
});

test('one namespace does not see the candidates of another', async () => {
  await using pair = await startPair();
  const lease = await pair.a.expect(201, 'POST', '/v1/leases', {
    body: { ttlMs: 20_000 },
    headers: { namespace: 'other' },
  });
  expect((await campaign(pair.a, 'boss', lease as { leaseToken: string })).status).toBe(200);
  expect((await electionOf(pair.b, 'boss')).leader).toBeNull();
  const { body } = await pair.b.call('GET', '/v1/elections/boss', { headers: { namespace: 'other' } });
  expect(body).toMatchObject({ candidateCount: 1 });
});
