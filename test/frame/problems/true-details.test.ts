/** The detail of a problem says what is so. */
import { expect, test } from 'vitest';
import { forbidden } from '../../../src/http/access/authorization.js';
import { eventually } from '../../support/eventually.js';
import { startPair } from '../../support/start-gateway.js';

test('a candidate in line that speaks as the leader is told that it does not lead, and where it stands', async () => {
  await using pair = await startPair();
  const [leader, next] = [await pair.a.createLease(), await pair.b.createLease()];
  const campaign = (leaseToken: string, status: number): Promise<unknown> =>
    pair.a.expect(status, 'POST', '/v1/elections/boss/campaign', { body: { keepPlace: true }, leaseToken });
  await campaign(leader.leaseToken, 200);
  await campaign(next.leaseToken, 202);
  const detail = expect.stringContaining('stands in line, with 1 before it') as string;
  for (const [operation, body] of [
    ['proclaim', { value: 1 }],
    ['acknowledge', {}],
  ] as const) {
    const refused = await pair.b.call('POST', `/v1/elections/boss/${operation}`, { body, leaseToken: next.leaseToken });
    expect(refused.body).toMatchObject({ status: 409, code: 'not-holder', detail });
  }
});

test('a candidate whose replica ends is not told that nothing was done: it stands, and may lead', async () => {
  await using pair = await startPair();
  const [leader, next] = [await pair.a.createLease(), await pair.a.createLease()];
  const campaign = ({ leaseToken }: { leaseToken: string }, waitMs: number): ReturnType<typeof pair.b.call> =>
    pair.b.call('POST', '/v1/elections/boss/campaign', { body: { waitMs, keepPlace: false }, leaseToken });
  await campaign(leader, 0);
  const waiting = campaign(next, 30_000);
  const candidates = async (): Promise<unknown> =>
    ((await pair.a.expect(200, 'GET', '/v1/elections/boss')) as { candidateCount: number }).candidateCount;
  await eventually('it stands', async () => (await candidates()) === 2);
  await pair.b.gateway.stop();
  expect((await waiting).body).toMatchObject({ code: 'draining', placeKept: true, outcome: 'unknown' });
  expect(await candidates()).toBe(2);
});

test('a priority for a queue that is not there says what order it would have', async () => {
  await using pair = await startPair();
  const body = { messages: [{ body: 1, priority: 3 }] };
  const refused = await pair.a.call('POST', '/v1/queues/new/messages', { body });
  expect(refused.body).toMatchObject({ status: 422, detail: expect.stringContaining('nobody configured') as string });
});

test('a credential without a scope is told of it in words', () => {
  const of = (kind: string): string =>
    forbidden({ scopes: ['read'], namespace: 'default', kind, name: undefined }).message;
  expect(of('status')).toContain('"read" on status in');
  expect(of('contention')).toContain('"read" on contention in');
  expect(of('lock')).toContain('"read" on locks in');
});
