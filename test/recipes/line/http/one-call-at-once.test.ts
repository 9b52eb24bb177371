/**
 * One one-call acquire, sent many times at once: where holds are shared nobody has to wait, so that nobody notices the
 * other (protocol C14).
 */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { Witness } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';

const TIMES = 10;

interface OneCall {
  fencingToken: number;
  leaseId: string;
  leaseToken: string;
}

test.each([
  ['a read lock', 'rwlocks', { mode: 'read' }],
  ['a read lock, by who waits', 'rwlocks', { mode: 'read', waitMs: 5_000 }],
  ['a write lock', 'rwlocks', { mode: 'write' }],
  ['permits of a semaphore', 'semaphores', { limit: 20, count: 2 }],
  ['permits of a semaphore, by who waits', 'semaphores', { limit: 20, count: 2, waitMs: 5_000 }],
  ['the only permit of a semaphore', 'semaphores', { limit: 1 }],
  ['a lock, by who does not wait', 'locks', {}],
])('gives one hold and one lease of %s when it is sent many times at once', async (_, kind, body) => {
  await using pair = await startPair();
  for (const name of ['one', 'two', 'three']) {
    const path = `/v1/${kind}/${name}`;
    const request = { body: { ...body, lease: { ttlMs: 20_000 }, requestId: `at-once-${name}-00000000000000` } };
    const replies = await Promise.all(
      Array.from({ length: TIMES }, (_, i) => (i % 2 === 0 ? pair.a : pair.b).call('POST', `${path}/acquire`, request)),
    );
    expect(replies.map(({ status }) => status)).toEqual(Array(TIMES).fill(200));
    for (const member of ['holdId', 'fencingToken', 'leaseId', 'leaseToken'])
      expect(new Set(replies.map((reply) => reply.body[member])).size, member).toBe(1);
    const { fencingToken, leaseId, leaseToken } = replies[0]?.body as OneCall;
    const check = await pair.b.call('POST', `${path}/check`, { body: { fencingToken } });
    expect(check.body).toEqual({ current: true, latestFencingToken: fencingToken });
    await eventually('the leases of the others are gone', async () => {
      const { items } = (await pair.a.expect(200, 'GET', '/v1/leases')) as { items: { leaseId: string }[] };
      return items.length === 1 && items[0]?.leaseId === leaseId;
    });
    await pair.a.expect(204, 'DELETE', '/v1/leases/self', { leaseToken });
    expect(await pair.b.expect(200, 'GET', path)).toMatchObject({ holderCount: 0, waiterCount: 0 });
  }
});

test('is refused at once, and leaves nothing, where the token of its first try cannot be read any more', async () => {
  await using pair = await startPair();
  await using witness = await Witness.start(pair.root);
  const path = '/v1/rwlocks/overwritten';
  const request = { body: { mode: 'read', lease: { ttlMs: 20_000 }, requestId: 'overwritten-00000000000' } };
  const first = (await pair.a.expect(200, 'POST', `${path}/acquire`, request)) as { leaseId: string };
  const directory = witness.layout.line('rwlock', 'default', 'overwritten');
  const [name] = (await witness.control.getChildren(directory)).children as [string];
  await witness.control.setData(`${directory}/${name}`, Buffer.from('of another client'));
  const again = await pair.b.call('POST', `${path}/acquire`, request);
  expect(again.body).toMatchObject({ status: 409, code: 'conflict', outcome: 'not-applied', retryable: true });
  expect(await pair.a.expect(200, 'GET', '/v1/leases')).toMatchObject({ items: [{ leaseId: first.leaseId }] });
  expect((await witness.control.getChildren(directory)).children).toEqual([name]);
});
