/** Long work does not keep the event loop from what else there is to do. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Turns, type Work } from '../../src/recipes/observing/turns.js';

/** A step takes a millisecond of CPU. */
function* steps(count: number, onStep: () => void): Work {
  for (let i = 0; i < count; i += 1) {
    const until = performance.now() + 1;
    while (performance.now() < until);
    onStep();
    yield;
  }
}

test('takes some milliseconds of each turn, however much is to be done', async () => {
  const turns = new Turns();
  let done = 0;
  const fault = (error: Error): void => expect.unreachable(String(error));
  for (let i = 0; i < 20; i += 1)
    turns.add(
      steps(10, () => (done += 1)),
      fault,
    );
  expect(done).toBe(0);
  let most = 0;
  for (let before = 0; done < 200; before = done) {
    await nextTurn();
    most = Math.max(most, done - before);
  }
  expect(most).toBeLessThanOrEqual(6);
});

test('work that begins later is not behind work that takes long', async () => {
  const turns = new Turns();
  const fault = (error: Error): void => expect.unreachable(String(error));
  let long = 0;
  let short = 0;
  turns.add(
    steps(100, () => (long += 1)),
    fault,
  );
  turns.add(
    steps(5, () => (short += 1)),
    fault,
  );
  while (short < 5) await nextTurn();
  expect(long).toBeLessThan(20);
  while (long < 100) await nextTurn();
});

test('work that fails says so, and the rest goes on', async () => {
  const turns = new Turns();
  const faults: string[] = [];
  let done = 0;
  const failing = function* (): Work {
    throw new Error('broken');
  };
  turns.add(failing(), ({ message }) => faults.push(message));
  turns.add(
    steps(3, () => (done += 1)),
    ({ message }) => faults.push(message),
  );
  while (done < 3) await nextTurn();
  expect(faults).toEqual(['broken']);
});
