/** The order in the room of a lock by priority (C95). */
import { expect, test } from 'vitest';
import {
  contenderOf,
  decodeHoldId,
  encodeHoldId,
  holdNodeName,
  isInRoom,
  sortLine,
  type Contender,
  type Hold,
} from '../../../src/recipes/line/contender.js';
import { PRIORITY_MAX, RANKS_PER_PRIORITY } from '../../../src/recipes/line/room/rank.js';
import { formatSequence } from '../../../src/zookeeper/paths.js';
import { seededRandom } from '../../support/scene.js';

const GUID = '01234567-89ab-8def-8123-456789abcdef';

function nameOf(number: number, priority: number): string {
  return `_c_${GUID}-prio${priority}-${formatSequence(number)}`;
}

const numberOf = ({ name }: Contender): number => Number(name.slice(-10));

test('the highest is first, and of equals the one that came first', () => {
  const names = [nameOf(0, 0), nameOf(1, 10), nameOf(2, 5), nameOf(3, 10), nameOf(4, 5)];
  expect(sortLine(names).map(numberOf)).toEqual([1, 3, 2, 4, 0]);
});

test('whoever waits is passed by as many later ones as the bound says, and by no more', () => {
  for (let priority = 0; priority <= PRIORITY_MAX; priority += 1) {
    const later = Array.from({ length: 2_000 }, (_, i) => nameOf(i + 1, PRIORITY_MAX));
    const line = sortLine([nameOf(0, priority), ...later]);
    const passed = line.findIndex((one) => numberOf(one) === 0);
    const bound = RANKS_PER_PRIORITY * (PRIORITY_MAX - priority);
    expect(passed).toBeLessThanOrEqual(bound);
    expect(passed).toBeGreaterThanOrEqual(bound - 1);
  }
});

test('no two are of one rank, so that every listing has the same order', () => {
  const random = seededRandom('ranks');
  const names = Array.from({ length: 1_500 }, (_, i) => nameOf(i, Math.floor(random() * (PRIORITY_MAX + 1))));
  const order = sortLine(names).map(({ name }) => name);
  const shuffled = names.toSorted(() => random() - 0.5);
  expect(sortLine(shuffled).map(({ name }) => name)).toEqual(order);
  expect(new Set(sortLine(names).map(({ sequence }) => sequence)).size).toBe(names.length);
});

test('a holdId names the place with its priority', () => {
  const hold: Hold = { prefix: 'prio7-', guid: GUID, sequence: 12, czxid: 34 };
  expect(decodeHoldId(encodeHoldId(hold))).toEqual(hold);
  expect(isInRoom(hold)).toBe(true);
  expect(isInRoom({ ...hold, prefix: 'lock-' })).toBe(false);
  expect(holdNodeName(hold)).toBe(nameOf(12, 7));
  expect(contenderOf(hold)).toEqual(sortLine([nameOf(12, 7)])[0]);
  expect(decodeHoldId(encodeHoldId({ ...hold, prefix: `prio${PRIORITY_MAX + 1}-` }))).toBeUndefined();
});
