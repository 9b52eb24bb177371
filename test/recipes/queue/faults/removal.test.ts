/** Removals of a message that somebody else gets in that moment. */
import { expect, test } from 'vitest';
import { claimOne } from '../claims.js';
import { pushBodies, queueOf, settleAll } from '../client.js';
import { beforeWrite } from '../../../support/scene.js';
import { startPair } from '../../../support/start-gateway.js';

const TTL_MS = 60_000;

test.each([
  ['is claimed', false, 409],
  ['is claimed, and given back', true, 204],
] as const)('a message that %s before its removal arrives is looked at anew (C71)', async (_, isGivenBack, status) => {
  await using pair = await startPair();
  const lease = await pair.b.createLease({ ttlMs: TTL_MS });
  const [pushed] = await pushBodies(pair.b, 'work', [1]);
  let claims = 0;
  beforeWrite(pair.a, async () => {
    const held = await claimOne(pair.b, 'work', lease);
    claims += 1;
    if (isGivenBack) await settleAll(pair.b, 'work', 'nack', lease, [held]);
  });
  const removed = await pair.a.call('DELETE', `/v1/queues/work/messages/${pushed?.id ?? ''}`);
  expect([removed.status, claims]).toEqual([status, 1]);
  expect(await queueOf(pair.b, 'work')).toMatchObject(isGivenBack ? { depth: 0 } : { depth: 1, claimed: 1 });
});
