/** Groups under many consumers at two replicas, which also give back: one message of a group at a time, in order. */
import { expect, test } from 'vitest';
import { startPair } from '../../../support/start-gateway.js';
import { freshRoot } from '../../../support/start-zookeeper.js';
import { claim, configure, push, queueOf, settleAll } from '../client.js';

const GROUPS = 10;
const EACH = 12;
const CONSUMERS_EACH = 4;
/** Of one group in all, at most. */
const GIVEN_BACK = 3;

test('many consumers at two replicas get each group in order, one message at a time', async () => {
  await using pair = await startPair({ root: freshRoot() });
  await configure(pair.a, 'work', { order: 'grouped' });
  for (let i = 0; i < EACH; i += 1)
    await push(
      pair.a,
      'work',
      Array.from({ length: GROUPS }, (_, group) => ({ body: i, group: `g${group}` })),
    );
  /** Of each group: which message is next, whether one is out, and how often one was given back. */
  const groups = new Map(Array.from({ length: GROUPS }, (_, i) => [`g${i}`, { next: 0, out: false, back: 0 }]));
  let left = GROUPS * EACH;
  const consume = async (own: typeof pair.a, other: typeof pair.a): Promise<void> => {
    const lease = await own.createLease({ ttlMs: 60_000 });
    while (left > 0) {
      const claimed = await claim(own, 'work', lease, { max: 3, waitMs: 500 });
      for (const { body, group = '' } of claimed as { body: number; group?: string }[]) {
        const state = groups.get(group);
        expect({ group, body, out: state?.out }).toEqual({ group, body: state?.next, out: false });
        if (state !== undefined) state.out = true;
      }
      for (const message of claimed) {
        const state = groups.get(message.group ?? '') as { next: number; out: boolean; back: number };
        const isBack = state.back < GIVEN_BACK && state.next % 4 === state.back;
        // Before it is settled: the next one may be out before the answer is here.
        state.out = false;
        if (isBack) state.back += 1;
        else {
          state.next += 1;
          left -= 1;
        }
        await settleAll(state.next % 2 === 0 ? own : other, 'work', isBack ? 'nack' : 'ack', lease, [message]);
      }
    }
  };
  await Promise.all(
    Array.from({ length: CONSUMERS_EACH }, () => [consume(pair.a, pair.b), consume(pair.b, pair.a)]).flat(),
  );
  expect(await queueOf(pair.a, 'work')).toMatchObject({ depth: 0, claimed: 0 });
});
