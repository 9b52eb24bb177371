/** A look at the signal of a membership may be what ends it: by the clock, after the process stood still. */
import { expect, it } from 'vitest';
import { endOf } from '../../src/command/jobs/join.js';

/** @param looks how many find it not aborted */
function endedByLook(looks: number): AbortSignal {
  const controller = new AbortController();
  const { signal } = controller;
  const plain = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'aborted') as PropertyDescriptor;
  let left = looks;
  return Object.defineProperty(signal, 'aborted', {
    get: () => {
      left -= 1;
      // Aborting looks once more, within this look.
      if (left === -1) controller.abort(new Error('no heartbeat'));
      return plain.get?.call(signal) as boolean;
    },
  });
}

it.each([0, 1, 2, 3, 4, 5])('is told when it is found ended after %i looks', { timeout: 5_000 }, async (looks) => {
  const signal = endedByLook(looks);
  const over = endOf(signal, undefined);
  for (let i = 0; i < looks; i += 1) void signal.aborted;
  await expect(over).resolves.toBe('no heartbeat');
});

it('is over after the longest hold', async () => {
  await expect(endOf(new AbortController().signal, 20)).resolves.toBe('20ms is the longest hold');
});
