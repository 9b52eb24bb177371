/** Which page of a line begins where. */
import { expect, test } from 'vitest';
import { PLACE_KEY, readLinePage } from '../../../src/recipes/line-page.js';
import { parseContender, sortLine, type Contender } from '../../../src/recipes/line/contender.js';
import { PRIORITY_MAX } from '../../../src/recipes/line/room/rank.js';

const LAST = 2 ** 31 - 1;

function nameOf(kind: string, number: number): string {
  return `_c_7f1d4b3e-57a8-4a4f-9d0c-1d2f3a4b5c6d-${kind}${String(number).padStart(10, '0')}`;
}

async function walk(line: readonly Contender[], limit: number): Promise<string[]> {
  const shown: string[] = [];
  for (let after: string | undefined, pages = 0; pages === 0 || after !== undefined; pages += 1) {
    const page = await readLinePage(line, { after, limit }, (wanted) =>
      Promise.resolve({ items: wanted.map(({ name }) => name), end: wanted.length }),
    );
    if (page.next !== undefined) expect(page.next).toMatch(PLACE_KEY);
    shown.push(...page.items);
    after = page.next;
  }
  return shown;
}

const inLine = sortLine([
  nameOf('__WRIT__', 0),
  nameOf('__READ__', 0),
  nameOf('__WRIT__', 1),
  nameOf('lock-', LAST - 1),
]);
const inRoom = sortLine(
  Array.from({ length: PRIORITY_MAX + 1 }, (_, priority) => priority).flatMap((priority) =>
    [0, 1, 100, 200, LAST - 1].map((number) => nameOf(`prio${priority}-`, number)),
  ),
);

test('every place has a page that begins behind it: the first number, one of two with the same, each in the room', async () => {
  const line = [...inLine, ...inRoom];
  for (const limit of [1, 2, 3, 1_000]) expect(await walk(line, limit)).toEqual(line.map(({ name }) => name));
});

test('a directory that is worn gives one number to many: each has its page all the same', async () => {
  const guids = ['9', '0', '5', '7'].map((digit) => `_c_${digit}f1d4b3e-57a8-4a4f-9d0c-1d2f3a4b5c6d-latch-${LAST}`);
  const line = sortLine(guids);
  expect(line.map(({ name }) => name)).toEqual(guids.toSorted());
  for (const limit of [1, 2, 3, 7]) expect(await walk(line, limit)).toEqual(guids.toSorted());
});

test('the first of the room comes behind the last of the line, also where that one has the higher number', async () => {
  const [room, last] = [nameOf('prio10-', 0), nameOf('lock-', 5_000)].map((name) => parseContender(name)!);
  expect(await walk([last!, room!], 1)).toEqual([last!.name, room!.name]);
});

test('a page that ends early is gone on with behind the last one that it came to, whether that one was there or not', async () => {
  const gone = { items: [], end: 2 };
  const { next } = await readLinePage(inLine, { after: undefined, limit: 4 }, () => Promise.resolve(gone));
  const read = (wanted: readonly Contender[]): Promise<{ items: Contender[]; end: number }> =>
    Promise.resolve({ items: [...wanted], end: wanted.length });
  const rest = await readLinePage(inLine.slice(2), { after: next, limit: 4 }, read);
  expect(rest).toEqual({ items: inLine.slice(2), next: undefined });
});
