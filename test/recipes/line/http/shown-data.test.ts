/** What callers show to others comes back as they gave it, through every record that it is kept in. */
import { expect, test } from 'vitest';
import { startPair, type Pair } from '../../../support/start-gateway.js';

/** What a reader of names, quotes and brackets might take for something else. */
const ODD = JSON.parse(
  '{"data":[{"data":{"value":[]}}],"value":"\\",\\"data\\":[","state":"\\\\","n":[1e21,-0,0.1,1e-7,null,true],"2":[],"1":{},"":"\\u2028\\ud83d\\ude00]}"}',
) as unknown;
const SHOWN = JSON.stringify(ODD);
const LEASE = { ttlMs: 60_000 };

interface Items {
  items: Record<string, unknown>[];
}

/** As both replicas show it, in this very order of its members, and with one ETag. */
async function expectShown({ a, b }: Pair, path: string, pick: (body: never) => unknown): Promise<void> {
  const [one, other] = [await a.call('GET', path), await b.call('GET', path)];
  expect(JSON.stringify(pick(one.body as never)), path).toBe(SHOWN);
  expect(other.body).toEqual(one.body);
  expect(other.headers['etag']).toBe(one.headers['etag']);
  const known = { headers: { 'if-none-match': String(one.headers['etag']) } };
  if (one.headers['etag'] !== undefined) expect((await b.call('GET', path, known)).status).toBe(304);
}

test.each([
  ['locks', {}],
  ['rwlocks', { mode: 'write' }],
  ['semaphores', { limit: 1 }],
])('the data of a hold of %s, also after it was waited for and asked for again', async (kind, body) => {
  await using pair = await startPair();
  const [first, second] = [await pair.a.createLease(LEASE), await pair.b.createLease(LEASE)];
  const path = `/v1/${kind}/odd`;
  const dataOf = ({ holders }: { holders: { data: unknown }[] }): unknown => holders[0]?.data;
  const ask = { body: { ...body, requestId: 'first-0', data: ODD }, leaseToken: first.leaseToken };
  await pair.a.expect(200, 'POST', `${path}/acquire`, ask);
  await expectShown(pair, path, dataOf);
  const again = { ...ask, body: { ...body, requestId: 'first-0' } };
  expect(await pair.b.expect(200, 'POST', `${path}/acquire`, again)).toMatchObject({ alreadyHeld: true });
  await expectShown(pair, path, dataOf);
  await expectShown(pair, `/v1/${kind}`, ({ items: [item] }: Items) => dataOf(item as never));

  const next = { ...body, requestId: 'second-0', data: ODD, waitMs: 20_000 };
  const waiting = pair.b.expect(200, 'POST', `${path}/acquire`, { body: next, leaseToken: second.leaseToken });
  const waiters = async (): Promise<number> =>
    ((await pair.a.expect(200, 'GET', path)) as { waiterCount: number }).waiterCount;
  await expect.poll(waiters).toBe(1);
  await pair.a.expect(204, 'POST', `${path}/release`, {
    body: { requestId: 'first-0' },
    leaseToken: first.leaseToken,
  });
  await waiting;
  await expectShown(pair, path, dataOf);
});

test('the value of a leader, as campaigned with, and as proclaimed', async () => {
  await using pair = await startPair();
  const { leaseToken } = await pair.a.createLease(LEASE);
  const path = '/v1/elections/odd';
  const valueOf = ({ leader }: { leader: { value: unknown } }): unknown => leader.value;
  await pair.a.expect(200, 'POST', `${path}/campaign`, { body: { value: ODD }, leaseToken });
  await expectShown(pair, path, valueOf);
  await expectShown(pair, `${path}/candidates`, ({ items: [item] }: Items) => item?.['value']);
  await pair.b.expect([200, 204], 'POST', `${path}/proclaim`, { body: { value: 1 }, leaseToken });
  await pair.b.expect([200, 204], 'POST', `${path}/proclaim`, { body: { value: ODD }, leaseToken });
  await expectShown(pair, path, valueOf);
});

test('the value of a member', async () => {
  await using pair = await startPair();
  const { leaseToken } = await pair.a.createLease(LEASE);
  await pair.a.expect([200, 201], 'PUT', '/v1/groups/odd/members/m', { body: { value: ODD }, leaseToken });
  await expectShown(
    pair,
    '/v1/groups/odd',
    ({ members: [member] }: { members: { value: unknown }[] }) => member?.value,
  );
  await expectShown(pair, '/v1/groups/odd/members', ({ items: [item] }: Items) => item?.['value']);
});

test('the data of a transaction', async () => {
  await using pair = await startPair();
  const body = { participants: ['p'], deadlineMs: 60_000, data: ODD };
  const { transactionId } = (await pair.a.expect(201, 'POST', '/v1/transactions', { body })) as {
    transactionId: string;
  };
  await expectShown(pair, `/v1/transactions/${transactionId}`, ({ data }: { data: unknown }) => data);
});
