/** What queues refuse, before anything is done: the answer names the field and its rule. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { bodiesOf, claim, configure, peek, pushBodies, queueOf } from '../client.js';

const LONG = 'x'.repeat(201);

test('a push with something wrong in it pushes nothing, and makes no queue', async () => {
  await using pair = await startPair();
  const message = (more: Record<string, unknown>): unknown => ({ messages: [{ body: 1 }, { body: 2, ...more }] });
  for (const [body, field] of [
    [{}, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: {} }, 'messages'],
    [{ messages: Array.from({ length: 1_001 }, () => ({ body: 1 })) }, 'messages'],
    [{ messages: [{ body: 1 }], more: 1 }, 'more'],
    [{ messages: [{ body: 1 }, 'text'] }, 'messages[1]'],
    [{ messages: [{ body: 1 }, {}] }, 'messages[1].body'],
    [message({ more: 1 }), 'messages[1].more'],
    [message({ priority: -1 }), 'messages[1].priority'],
    [message({ priority: 1_000 }), 'messages[1].priority'],
    [message({ priority: 1.5 }), 'messages[1].priority'],
    [message({ priority: '1' }), 'messages[1].priority'],
    [message({ delayMs: -1 }), 'messages[1].delayMs'],
    [message({ delayMs: 604_800_001 }), 'messages[1].delayMs'],
    [message({ delayMs: null }), 'messages[1].delayMs'],
    [message({ expiresInMs: 0 }), 'messages[1].expiresInMs'],
    [message({ expiresInMs: 31_622_400_001 }), 'messages[1].expiresInMs'],
    [message({ expiresInMs: 200, delayMs: 200 }), 'messages[1].delayMs'],
    [message({ messageId: '' }), 'messages[1].messageId'],
    [message({ messageId: LONG }), 'messages[1].messageId'],
    [message({ messageId: 'a/b' }), 'messages[1].messageId'],
    [message({ messageId: 7 }), 'messages[1].messageId'],
    [message({ attributes: [] }), 'messages[1].attributes'],
    [message({ attributes: { a: 1 } }), 'messages[1].attributes.a'],
    [message({ attributes: { a: 'x'.repeat(1_025) } }), 'messages[1].attributes.a'],
    [
      message({ attributes: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`k${i}`, ''])) }),
      'messages[1].attributes',
    ],
  ] as const) {
    const refused = await pair.a.call('POST', '/v1/queues/work/messages', { body });
    expect(refused.status, field).toBe(422);
    expect(refused.body, field).toMatchObject({ code: 'invalid', outcome: 'not-applied', field });
  }
  for (const key of ['a b', LONG, '']) {
    const refused = await pair.a.call('POST', '/v1/queues/work/messages', {
      body: message({ attributes: { [key]: '' } }),
    });
    expect(refused.status, key).toBe(422);
    expect((refused.body as { field: string }).field, key).toContain('messages[1].attributes');
  }
  expect((await pair.a.call('POST', '/v1/queues/work/messages', { body: '{' })).status).toBe(400);
  expect(((await pair.b.expect(200, 'GET', '/v1/queues')) as { items: unknown[] }).items).toEqual([]);
});

test('nor does a push of bytes, or one to what is no name', async () => {
  await using pair = await startPair();
  for (const [query, field] of [
    ['priority=1000', 'priority'],
    ['priority=x', 'priority'],
    ['delayMs=-1', 'delayMs'],
    ['delayMs=604800001', 'delayMs'],
    ['expiresInMs=0', 'expiresInMs'],
    ['expiresInMs=31622400001', 'expiresInMs'],
    ['expiresInMs=200&delayMs=200', 'delayMs'],
    ['messageId=', 'messageId'],
    [`messageId=${LONG}`, 'messageId'],
    ['messageId=a%2Fb', 'messageId'],
    ['more=1', 'more'],
  ] as const) {
    const refused = await pair.b.call('POST', `/v1/queues/work/messages/raw?${query}`, {
      body: 'x',
      headers: { 'content-type': 'text/plain' },
    });
    expect(refused.status, query).toBe(422);
    expect(refused.body, query).toMatchObject({ code: 'invalid', field });
  }
  for (const name of ['a%2Fb', 'a%20b', LONG]) {
    const refused = await pair.a.call('POST', `/v1/queues/${name}/messages`, { body: { messages: [{ body: 1 }] } });
    expect(refused.status, name).toBe(422);
    expect(refused.body, name).toMatchObject({ code: 'invalid', field: 'name' });
  }
  expect(((await pair.b.expect(200, 'GET', '/v1/queues')) as { items: unknown[] }).items).toEqual([]);
});

test('popping, claiming and settling with something wrong in it does nothing', async () => {
  await using pair = await startPair();
  const lease = await pair.a.createLease({ ttlMs: 20_000 });
  await pushBodies(pair.a, 'work', [1, 2]);
  const [held] = await claim(pair.a, 'work', lease);
  const claimIds = [held?.claimId];
  for (const [what, body, field] of [
    ...(['pop', 'claim'] as const).flatMap((taking) => [
      [taking, { max: 0 }, 'max'] as const,
      [taking, { max: 1_001 }, 'max'] as const,
      [taking, { max: 1.5 }, 'max'] as const,
      [taking, { max: '1' }, 'max'] as const,
      [taking, { waitMs: -1 }, 'waitMs'] as const,
      [taking, { waitMs: 55_001 }, 'waitMs'] as const,
      [taking, { more: 1 }, 'more'] as const,
      [taking, [], 'body'] as const,
    ]),
    ['pop', { claimMs: 1_000 }, 'claimMs'],
    ['pop', { requestId: 'r1' }, 'requestId'],
    ['claim', { claimMs: 99 }, 'claimMs'],
    ['claim', { claimMs: 86_400_001 }, 'claimMs'],
    ['claim', { requestId: 'a b' }, 'requestId'],
    ['claim', { requestId: 'x'.repeat(65) }, 'requestId'],
    ...(['ack', 'nack', 'extend'] as const).flatMap((settling) => {
      const more = settling === 'extend' ? { claimMs: 1_000 } : {};
      return [
        [settling, more, 'claimIds'] as const,
        [settling, { claimIds: [], ...more }, 'claimIds'] as const,
        [settling, { claimIds: held?.claimId, ...more }, 'claimIds'] as const,
        [settling, { claimIds: [...claimIds, ''], ...more }, 'claimIds[1]'] as const,
        [settling, { claimIds: [...claimIds, LONG], ...more }, 'claimIds[1]'] as const,
        [settling, { claimIds: [...claimIds, 1], ...more }, 'claimIds[1]'] as const,
        [settling, { claimIds: Array.from({ length: 1_001 }, () => 'x'), ...more }, 'claimIds'] as const,
        [settling, { claimIds, ...more, more: 1 }, 'more'] as const,
      ];
    }),
    ['ack', { claimIds, delayMs: 1 }, 'delayMs'],
    ['nack', { claimIds, delayMs: 604_800_001 }, 'delayMs'],
    ['nack', { claimIds, delayMs: -1 }, 'delayMs'],
    ['nack', { claimIds, reason: 'x'.repeat(1_025) }, 'reason'],
    ['nack', { claimIds, reason: 1 }, 'reason'],
    ['extend', { claimIds }, 'claimMs'],
    ['extend', { claimIds, claimMs: 99 }, 'claimMs'],
    ['extend', { claimIds, claimMs: 86_400_001 }, 'claimMs'],
  ] as const) {
    const refused = await pair.b.call('POST', `/v1/queues/work/${what}`, {
      body,
      ...(what !== 'pop' && { leaseToken: lease.leaseToken }),
    });
    expect(refused.status, `${what} ${field}`).toBe(422);
    expect(refused.body, `${what} ${field}`).toMatchObject({ code: 'invalid', field });
  }
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 2, claimed: 1 });
  expect(await peek(pair.b, 'work')).toMatchObject([{ deliveries: 1 }, { deliveries: 0 }]);
});

test('claiming and settling takes a lease token', async () => {
  await using pair = await startPair();
  await pushBodies(pair.a, 'work', [1]);
  for (const what of ['claim', 'ack', 'nack', 'extend']) {
    const body = what === 'claim' ? {} : { claimIds: ['x'], ...(what === 'extend' && { claimMs: 1_000 }) };
    const without = await pair.b.call('POST', `/v1/queues/work/${what}`, { body });
    expect(without.status).toBe(400);
    expect(without.body).toMatchObject({ code: 'lease-token-required' });
    expect((await pair.b.call('POST', `/v1/queues/work/${what}`, { body, leaseToken: 'nonsense' })).status).toBe(403);
  }
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, claimed: 0 });
});

test('configuring and administering with something wrong in it changes nothing', async () => {
  await using pair = await startPair();
  await configure(pair.a, 'work', { maxDepth: 5 });
  await pushBodies(pair.a, 'work', [1]);
  const dead = { maxDeliveries: 2, deadLetterQueue: 'dead' };
  for (const [body, field] of [
    [{}, 'order'],
    [{ order: 'lifo' }, 'order'],
    [{ order: 'fifo', maxDepth: 0 }, 'maxDepth'],
    [{ order: 'fifo', maxDepth: 100_000_001 }, 'maxDepth'],
    [{ order: 'fifo', ...dead, maxDeliveries: 0 }, 'maxDeliveries'],
    [{ order: 'fifo', ...dead, maxDeliveries: 1_001 }, 'maxDeliveries'],
    [{ order: 'fifo', maxDeliveries: 2 }, 'deadLetterQueue'],
    [{ order: 'fifo', deadLetterQueue: 'dead' }, 'maxDeliveries'],
    [{ order: 'fifo', ...dead, deadLetterQueue: 'work' }, 'deadLetterQueue'],
    [{ order: 'fifo', ...dead, deadLetterQueue: 'a/b' }, 'deadLetterQueue'],
    [{ order: 'fifo', deadLetterExpired: true }, 'deadLetterQueue'],
    [{ order: 'fifo', deadLetterExpired: false, deadLetterQueue: 'dead' }, 'maxDeliveries'],
    [{ order: 'fifo', messageTtlMs: 0 }, 'messageTtlMs'],
    [{ order: 'fifo', messageTtlMs: 31_622_400_001 }, 'messageTtlMs'],
    [{ order: 'fifo', maxClaimMs: 99 }, 'maxClaimMs'],
    [{ order: 'fifo', maxClaimMs: 86_400_001 }, 'maxClaimMs'],
    [{ order: 'fifo', dedupWindowMs: -1 }, 'dedupWindowMs'],
    [{ order: 'fifo', dedupWindowMs: 86_400_001 }, 'dedupWindowMs'],
    [{ order: 'fifo', more: 1 }, 'more'],
  ] as const) {
    const refused = await pair.b.call('PUT', '/v1/queues/work', { body });
    expect(refused.status, `${field} ${JSON.stringify(body)}`).toBe(422);
    expect(refused.body, `${field} ${JSON.stringify(body)}`).toMatchObject({ code: 'invalid', field });
  }
  for (const [method, path, body, field] of [
    ['POST', '/v1/queues/work/redrive', {}, 'to'],
    ['POST', '/v1/queues/work/redrive', { to: 'a/b' }, 'to'],
    ['POST', '/v1/queues/work/redrive', { to: 'dead', more: 1 }, 'more'],
    ['DELETE', '/v1/queues/work?force=maybe', undefined, 'force'],
    ['DELETE', '/v1/queues/work?more=1', undefined, 'more'],
    ['GET', '/v1/queues/work/messages?limit=0', undefined, 'limit'],
    ['GET', '/v1/queues/work/messages?limit=1001', undefined, 'limit'],
    ['GET', '/v1/queues/work/messages?pageToken=nonsense', undefined, 'pageToken'],
    ['GET', '/v1/queues/work/messages?pageToken=bnVsbA', undefined, 'pageToken'],
    ['GET', '/v1/queues/work/messages?prefix=a', undefined, 'prefix'],
    ['GET', '/v1/queues?limit=0', undefined, 'limit'],
    ['GET', '/v1/queues?pageToken=nonsense', undefined, 'pageToken'],
    ['GET', '/v1/queues?prefix=%2F', undefined, 'prefix'],
    ['GET', '/v1/queues/work?waitMs=1', undefined, 'waitMs'],
    ['GET', '/v1/queues/work/events?maxMs=0', undefined, 'maxMs'],
  ] as const) {
    const refused = await pair.a.call(method, path, { ...(body !== undefined && { body }) });
    expect(refused.status, path).toBe(422);
    expect(refused.body, path).toMatchObject({ code: 'invalid', field });
  }
  for (const [method, path] of [
    ['POST', '/v1/queues/work'],
    ['GET', '/v1/queues/work/pop'],
    ['DELETE', '/v1/queues/work/messages'],
  ] as const)
    expect((await pair.a.call(method, path)).status, path).toBe(405);
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 1, config: { order: 'fifo', maxDepth: 5 } });
  expect(bodiesOf(await peek(pair.b, 'work'))).toEqual([1]);
});
