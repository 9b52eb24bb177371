/** The turn of a replica to take from a queue, between two of its transactions. */
import { expect, test } from 'vitest';
import { Turn } from '../../../src/recipes/queue/claim/turn.js';
import { isReason } from '../../../src/zookeeper/errors.js';
import { startReplica } from '../../support/start-gateway.js';
import { freshRoot } from '../../support/start-zookeeper.js';
import { timing } from '../../support/timing.js';

test('a transaction that is sent after the turn was lost fails as one whose node is gone, not as one that makes no sense', async () => {
  const root = freshRoot();
  await using replica = await startReplica({ root });
  const { control } = replica.gateway.context;
  const deadline = performance.now() + timing.eventuallyMs;
  const turn = new Turn(control, `${root}/takers`, () => undefined);
  await control.ensurePath(`${root}/takers`, deadline);
  const error = await control
    .multi([turn.fence({ number: 1, waiting: 0 })], deadline)
    .catch((reason: unknown) => reason);
  expect(isReason(error, 'NO_NODE')).toBe(true);
});
