/** Consumers that wait while their queue is deleted and made anew (T7). */
import { expect, test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { startPair } from '../../../support/start-gateway.js';

test('a consumer that waits at a queue which is deleted and made anew gets what is pushed to the new one, also before the old one is cleared away (T7)', async () => {
  await using pair = await startPair();
  const { a, b } = pair;
  await a.call('PUT', '/v1/queues/again', { body: { order: 'fifo' } });
  const waiting = a.call('POST', '/v1/queues/again/pop', { body: { waitMs: 20_000 } });
  await eventually('it waits', async () => (await a.metric('postern_waiters', { kind: 'queue' })) === 1);
  const { control } = b.gateway.context;
  const remove = control.removeRecursive.bind(control);
  // As if the replica had died behind the deletion: nobody clears the old contents away.
  control.removeRecursive = () => Promise.resolve();
  expect((await b.call('DELETE', '/v1/queues/again')).status).toBe(204);
  expect((await b.call('POST', '/v1/queues/again/messages', { body: { messages: [{ body: 'new' }] } })).status).toBe(
    201,
  );

  expect((await waiting).body.items).toMatchObject([{ body: 'new' }]);
  control.removeRecursive = remove;
});
