/** How subscribers are told: in the order of what is published, and with the event loop in between. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { lookAtNode } from '../../../src/recipes/observing/looks.js';
import { Observers } from '../../../src/recipes/observing/observers.js';
import { Telling, type Subscriber } from '../../../src/recipes/observing/telling.js';
import { Turns } from '../../../src/recipes/observing/turns.js';
import { eventually } from '../../support/eventually.js';
import { freshRoot, sharedZooKeeper } from '../../support/start-zookeeper.js';
import { controlIn } from '../../support/zookeeper/sessions.js';

/** As long as it takes to write a long event. */
function work(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

test('where telling takes long, others have their turn in between, and each is told all states in order', async () => {
  let turn = 0;
  let isOver = false;
  const told = Array.from({ length: 20 }, (): [state: number, turn: number][] => []);
  const subscribers = new Set(
    told.map((seen): Subscriber<number> => (state) => {
      work(6);
      seen.push([state, turn]);
    }),
  );
  const telling = new Telling(new Turns(), subscribers, () => undefined);
  const others = (async () => {
    for (; !isOver; turn += 1) await nextTurn();
  })();
  telling.tell(1);
  telling.tell(2);
  const ms = await telling.told;
  isOver = true;
  await others;
  for (const seen of told) expect(seen.map(([state]) => state)).toEqual([1, 2]);
  const first = told.map(([one]) => one?.[1] as number);
  expect(new Set(first).size).toBe(first.length);
  expect(ms).toBeGreaterThanOrEqual(20 * 6);
});

test('few are told at once, and one that fails, which is told of, or has gone keeps nobody from it', () => {
  const faults: unknown[] = [];
  const seen: string[] = [];
  const gone: Subscriber<string> = () => seen.push('gone');
  const subscribers = new Set<Subscriber<string>>([
    () => subscribers.delete(gone),
    () => {
      throw new Error('of one');
    },
    gone,
    (state) => seen.push(state),
  ]);
  new Telling(new Turns(), subscribers, (error) => faults.push(error)).tell('news');
  expect(seen).toEqual(['news']);
  expect(faults.map(String)).toEqual(['Error: of one']);
});

test('what a subscriber throws is for the log, and the others are told', async () => {
  await using control = await controlIn(sharedZooKeeper(), freshRoot());
  const observers = new Observers(
    control,
    lookAtNode(control, (_, { value }) => ({ etag: value === undefined ? 'absent' : 'there' })),
  );
  const seen: string[] = [];
  const node = { path: '/n' };
  const unsubscribe = [
    observers.subscribe(node, () => {
      throw new Error('of one');
    }),
    observers.subscribe(node, ({ etag }) => seen.push(etag)),
  ];
  await eventually('the others have been told', () => seen.length === 1);
  expect(control.observer.faults.map(String)).toEqual(['Error: of one']);
  for (const each of unsubscribe) each();
});
