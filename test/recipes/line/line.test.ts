/** What a replica knows of a line, from listings of different age and from what it sees leave. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createMetrics } from '../../../src/metrics/metrics.js';
import { parseContender, sortLine, type Contender } from '../../../src/recipes/line/contender.js';
import { Line } from '../../../src/recipes/line/line.js';
import { ownDirectory, withDelays, type LineDirectory } from '../../../src/recipes/line/directory.js';
import type { PermitTurns } from '../../../src/recipes/line/permits/turns.js';
import { ruleOf } from '../../../src/recipes/line/rule.js';
import type { Kind } from '../../../src/metrics/metrics.js';
import type { ControlSession } from '../../../src/zookeeper/control-session.js';
import type { Stat } from '../../../src/zookeeper/operations.js';
import { formatSequence } from '../../../src/zookeeper/paths.js';

/** A line that is only told, and asks nobody. */
function lineOf(kind: Kind, ...names: string[]): Line {
  const line = new Line(
    '/line',
    ruleOf(kind),
    {} as ControlSession,
    createMetrics({ version: '', processMetrics: false }),
  );
  line.merge(sortLine(names), 1);
  return line;
}

function at(name: string): Contender {
  return parseContender(name) as Contender;
}

function shown(line: Line): string[] {
  return line.members.map(({ name }) => name);
}

const lock = (sequence: number): string => `lock-${formatSequence(sequence)}`;
const write = (sequence: number): string => `_c_x-__WRIT__${formatSequence(sequence)}`;
const read = (sequence: number): string => `_c_x-__READ__${formatSequence(sequence)}`;
const LAST = 2 ** 31 - 1;

describe('a line that is told listings', () => {
  test('believes the newer of two, in whatever order they come', () => {
    const line = lineOf('lock', lock(1), lock(2), lock(3));
    line.merge([at(lock(2)), at(lock(3)), at(lock(4))], 9);
    line.merge([at(lock(1)), at(lock(2)), at(lock(3))], 5);
    expect(shown(line)).toEqual([lock(2), lock(3), lock(4)]);
  });

  test('gives no position below 0 to those whose turn has come', () => {
    const line = lineOf('rwlock', read(1), read(2), read(3), write(4));
    expect([read(1), read(2), read(3), write(4)].map((name) => line.positionOf(at(name)))).toEqual([0, 0, 0, 1]);
  });

  test('tells those who wait for permits of everybody who is missing in it, and of nobody who came', () => {
    const line = lineOf('semaphore', lock(1), lock(2));
    let told = 0;
    line.turns = { changed: () => (told += 1) } as unknown as PermitTurns;
    line.merge([at(lock(1)), at(lock(2)), at(lock(3))], 5);
    line.merge([at(lock(1))], 4); // an older one
    expect(told).toBe(0);
    line.merge([at(lock(2)), at(lock(3))], 6);
    expect(told).toBe(1);
    line.merge([at(lock(2))], 7); // whoever came after the listing may still be there
    expect(told).toBe(1);
  });

  /** A history of a directory: at each step somebody joins, or somebody leaves. */
  const history = fc.array(fc.oneof(fc.constant('join' as const), fc.nat(20)), { minLength: 1, maxLength: 40 });
  const beginning = fc.constantFrom(0, 2 ** 30, LAST - 40);

  function play(steps: readonly ('join' | number)[], first: number): { present: string[]; zxid: number }[] {
    let sequence = first;
    let present: string[] = [];
    return steps.map((step, zxid) => {
      if (step === 'join') {
        present = [...present, lock(sequence)];
        sequence += 1;
      } else present = present.filter((_, i) => i !== step);
      return { present, zxid: zxid + 1 };
    });
  }

  test('never misses anybody who stands before one that it shows, from any listings in any order', () => {
    fc.assert(
      fc.property(history, beginning, fc.array(fc.nat(), { minLength: 1, maxLength: 12 }), (steps, first, looks) => {
        const states = play(steps, first);
        const line = lineOf('lock');
        const seen = looks.map((look) => states[look % states.length] as (typeof states)[0]);
        for (const { present, zxid } of seen) line.merge(sortLine([...present].reverse()), zxid + 1);
        const newest = seen.reduce((a, b) => (b.zxid > a.zxid ? b : a));
        const members = shown(line);
        expect(members.filter((name) => newest.present.includes(name))).toEqual(newest.present);
        expect(members).toEqual(sortLine(members).map(({ name }) => name));
      }),
    );
  });

  test('knows from the data of the directory whether it may be removed and made anew, and whether there may be lock-delays', () => {
    const line = lineOf('lock');
    const seen = (mzxid: number, data: Buffer): void =>
      line.merge([at(lock(0))], mzxid, { mzxid, version: mzxid, dataLength: data.length } as Stat);
    seen(2, Buffer.alloc(0));
    expect(line.directory).toMatchObject({ removable: true, delays: false });
    seen(3, withDelays(line.directory as LineDirectory));
    expect(line.directory).toMatchObject({ removable: true, delays: true });
    seen(4, ownDirectory(false));
    expect(line.directory).toMatchObject({ removable: false, delays: false });
    seen(6, withDelays(line.directory as LineDirectory));
    expect(line.directory).toMatchObject({ removable: false, delays: true });
    seen(5, ownDirectory(false)); // an older reading
    expect(line.directory).toMatchObject({ removable: false, delays: true, version: 6 });
  });
});

describe('whom a contender waits for', () => {
  test('is found by its name and place', () => {
    const line = lineOf('lock', lock(7), lock(8), lock(LAST - 1), lock(LAST));
    expect(line.blockersOf(at(lock(LAST - 1))).map(({ name }) => name)).toEqual([lock(8)]);
    expect(line.positionOf(at(lock(LAST)))).toBe(3);
  });

  test("is the writer, for the reader that has the writer's own sequence number", () => {
    const line = lineOf('rwlock', read(4), write(5), read(5), write(6));
    expect(line.blockersOf(at(write(5))).map(({ name }) => name)).toEqual([read(4)]);
    expect(line.blockersOf(at(read(5))).map(({ name }) => name)).toEqual([write(5)]);
    expect(line.blockersOf(at(write(6))).map(({ name }) => name)).toEqual([write(5), read(5)]);
    line.remove(at(write(5)));
    expect(shown(line)).toEqual([read(4), read(5), write(6)]);
    expect(line.blockersOf(at(read(5)))).toEqual([]);
  });

  test('is the same when others have struck it already: it is not taken for whoever stands in its place', () => {
    const line = lineOf('rwlock', read(1), write(2), read(3), read(4), write(5));
    line.remove(at(write(2)));
    expect(line.blockersOf(at(write(2))).map(({ name }) => name)).toEqual([read(1)]);
    expect(line.suspectsOf(at(write(2))).map(({ name }) => name)).toEqual([read(1)]);
    line.remove(at(read(3)));
    expect(line.blockersOf(at(read(3)))).toEqual([]);
    expect(shown(line)).toEqual([read(1), read(4), write(5)]);
  });

  test('gets fewer and never more as the others leave, until it is nobody', () => {
    const anyLine = fc.array(fc.boolean(), { minLength: 1, maxLength: 16 });
    fc.assert(
      fc.property(anyLine, fc.infiniteStream(fc.nat()), (kinds, order) => {
        const members = kinds.map((reads, i) => (reads ? read : write)(LAST - 16 + i));
        const line = lineOf('rwlock', ...members);
        const me = at(members.at(-1) as string);
        let before = line.positionOf(me);
        for (let left = members.slice(0, -1); left.length > 0;) {
          const [gone] = left.splice(order.next().value % left.length, 1);
          line.remove(at(gone as string));
          const now = line.positionOf(me);
          expect(now).toBeLessThanOrEqual(Math.max(before, 0));
          before = now;
        }
        expect(line.blockersOf(me)).toEqual([]);
      }),
    );
  });
});

describe('a line of which somebody leaves', () => {
  test('strikes exactly that one, and nobody when it is not there', () => {
    const line = lineOf('lock', lock(1), lock(2), lock(4));
    line.remove(at(lock(3)));
    line.remove(at('other-0000000002'));
    expect(shown(line)).toEqual([lock(1), lock(2), lock(4)]);
    line.remove(at(lock(2)));
    expect(shown(line)).toEqual([lock(1), lock(4)]);
  });

  test('forgets everybody before a writer that was admitted, and nobody before a reader', () => {
    const line = lineOf('rwlock', read(1), read(2), write(3), read(4));
    line.admit(at(read(2)));
    expect(shown(line)).toEqual([read(1), read(2), write(3), read(4)]);
    line.admit(at(write(3)));
    expect(shown(line)).toEqual([write(3), read(4)]);
  });

  test('hands over to nobody but one who is alone, right behind one who was alone', () => {
    expect(lineOf('rwlock', read(1), write(2)).waiterBehind(at(read(1)))).toBeUndefined();
    expect(lineOf('rwlock', write(1), read(2)).waiterBehind(at(write(1)))).toBeUndefined();
    expect(lineOf('lock', lock(2)).waiterBehind(at(lock(1)))).toBeUndefined();
  });

  test('knows who may hold before a waiter, however many they are', () => {
    const line = lineOf('rwlock', read(1), read(2), read(3), write(4), read(5));
    expect(line.admittedBefore(at(write(4))).map(({ name }) => name)).toEqual([read(1), read(2), read(3)]);
    expect(line.admittedBefore(at(read(2))).map(({ name }) => name)).toEqual([read(1)]);
  });
});
