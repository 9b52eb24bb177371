/** Bytes that are read at once: no more than there is room for, and nobody waits for ever or is overtaken for ever. */
import { expect, test } from 'vitest';
import { ByteBudget } from '../../src/zookeeper/byte-budget.js';
import { scaled } from '../support/timing.js';

const soon = (): number => performance.now() + scaled(5_000);

/** Work that lasts until it is told to end. */
function held(): { work: () => Promise<void>; end: () => void; begun: () => boolean } {
  let end = (): void => undefined;
  let begun = false;
  const ended = new Promise<void>((resolve) => (end = resolve));
  return { work: () => ((begun = true), ended), end: () => end(), begun: () => begun };
}

test('what would go beyond the budget waits until enough is given back, in the order in which it came', async () => {
  const budget = new ByteBudget(100);
  const [first, large, small] = [held(), held(), held()];
  const works = [
    budget.spend(60, soon(), first.work),
    budget.spend(80, soon(), large.work),
    budget.spend(10, soon(), small.work),
  ];
  await Promise.resolve();
  expect([first.begun(), large.begun(), small.begun()]).toEqual([true, false, false]);
  first.end();
  await works[0];
  await budget.spend(10, soon(), () => Promise.resolve());
  expect([large.begun(), small.begun()]).toEqual([true, true]);
  large.end();
  small.end();
  await Promise.all(works);
});

test('more than there is at all has all of it for itself, and what fails gives back what it had', async () => {
  const budget = new ByteBudget(100);
  const alone = held();
  const huge = budget.spend(1_000, soon(), alone.work);
  const next = held();
  const behind = budget.spend(1, soon(), next.work);
  await Promise.resolve();
  expect([alone.begun(), next.begun()]).toEqual([true, false]);
  next.end();
  alone.end();
  await Promise.all([huge, behind]);
  await expect(budget.spend(100, soon(), () => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  await budget.spend(100, soon(), () => Promise.resolve());
});

test('who has no room by its deadline is refused with the limit, and lets those behind it pass', async () => {
  const budget = new ByteBudget(100);
  const first = held();
  const one = budget.spend(60, soon(), first.work);
  const refused = budget.spend(80, performance.now() + 20, () => Promise.resolve());
  const behind = budget.spend(40, soon(), () => Promise.resolve('passed'));
  await expect(refused).rejects.toMatchObject({
    code: 'overloaded',
    members: { limit: 'maxReadBytesAtOnce', maxReadBytesAtOnce: 100 },
  });
  expect(await behind).toBe('passed');
  first.end();
  await one;
});
