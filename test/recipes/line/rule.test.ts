/** Who in a line may hold, and whom the others wait for: what must be true of every line that there can be. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Contender } from '../../../src/recipes/line/contender.js';
import {
  exclusive,
  obstacle,
  permits,
  permitsOf,
  readWrite,
  ruleOf,
  standing,
  type LineRule,
} from '../../../src/recipes/line/rule.js';

const SUSPECTS_MAX = 256;

/** `RWR`: two readers, and a writer between them. */
function lineOf(letters: string): Contender[] {
  return [...letters].map((letter, i) => ({ name: `${letter}${i}`, sequence: i, reads: letter === 'R' }));
}

function names(contenders: readonly Contender[]): string {
  return contenders.map(({ name }) => name).join(' ');
}

const anyLine = fc
  .array(fc.boolean(), { maxLength: 24 })
  .map((reads) => lineOf(reads.map((r) => (r ? 'R' : 'W')).join('')));
/** A line, and one who stands in it. */
const anyPlace = anyLine
  .filter(({ length }) => length > 0)
  .chain((line) => fc.tuple(fc.constant(line), fc.nat(line.length - 1)));

const RULES: readonly (readonly [string, LineRule])[] = [
  ['a lock', exclusive('lock')],
  ['a read-write lock', readWrite],
];

for (const [what, rule] of RULES) {
  describe(`the rule of ${what}`, () => {
    test('admits somebody as long as anybody stands in line', () => {
      fc.assert(
        fc.property(anyLine, (line) => {
          const admitted = rule.admitted(line);
          expect(admitted).toBeLessThanOrEqual(line.length);
          expect(admitted > 0).toBe(line.length > 0);
        }),
      );
    });

    test('admits exactly those who wait for nobody, and they are the first in line', () => {
      fc.assert(
        fc.property(anyLine, (line) => {
          const free = line.map((_, i) => rule.blockers(line, i).length === 0);
          expect(free).toEqual(line.map((_, i) => i < rule.admitted(line)));
        }),
      );
    });

    test('lets nobody in together with one who must be alone', () => {
      fc.assert(
        fc.property(anyLine, (line) => {
          const holders = line.slice(0, rule.admitted(line));
          expect(holders.length === 1 || !holders.some((holder) => rule.alone(holder))).toBe(true);
        }),
      );
    });

    test('never takes back what it gave: whoever is admitted stays so, whoever leaves and whoever comes', () => {
      fc.assert(
        fc.property(anyPlace, fc.boolean(), ([line, leaving], reads) => {
          const before = new Set(line.slice(0, rule.admitted(line)));
          const left = line.filter((_, i) => i !== leaving);
          const now = [...left, { name: 'new', sequence: line.length, reads }];
          const after = new Set(now.slice(0, rule.admitted(now)));
          for (const holder of left) if (before.has(holder)) expect(after).toContain(holder);
        }),
      );
    });

    test('is decided by those before alone', () => {
      fc.assert(
        fc.property(anyPlace, ([line, index]) => {
          const before = line.slice(0, index + 1);
          expect(rule.blockers(line, index)).toEqual(rule.blockers(before, index));
          expect(rule.suspects(line, index)).toEqual(rule.suspects(before, index));
        }),
      );
    });

    test('lets nobody sleep through: while those one waits for stand, one is not admitted, and whoever leaves else changes nothing', () => {
      fc.assert(
        fc.property(anyPlace, fc.infiniteStream(fc.boolean()), ([line, index], coins) => {
          const me = line[index] as Contender;
          const blockers = new Set(rule.blockers(line, index));
          fc.pre(blockers.size > 0);
          // Anybody before me goes, except one of those that I wait for.
          const [kept] = blockers;
          const rest = line.filter((member) => member === me || member === kept || coins.next().value);
          expect(rule.blockers(rest, rest.indexOf(me)).length).toBeGreaterThan(0);
        }),
      );
    });

    test('has everybody whom one waits for among those who are asked about after a wake-up', () => {
      fc.assert(
        fc.property(anyPlace, ([line, index]) => {
          const suspects = new Set(rule.suspects(line, index));
          for (const blocker of rule.blockers(line, index)) expect(suspects).toContain(blocker);
        }),
      );
    });

    test('has the head in the way of a newcomer, or nobody', () => {
      fc.assert(
        fc.property(anyLine, fc.boolean(), (line, reads) => {
          const joined = [...line, { name: 'new', sequence: line.length, reads }];
          const admitted = rule.admitted(joined) === joined.length;
          expect(obstacle(rule, line, { reads })).toBe(admitted ? undefined : line[0]);
        }),
      );
    });
  });
}

/** A line of a semaphore, and its limit. */
const anySemaphore = fc.tuple(
  fc
    .array(fc.integer({ min: 1, max: 5 }), { maxLength: 16 })
    .map((counts) =>
      counts.map((count, i): Contender => ({ name: `p${i}`, sequence: i, reads: false, permits: count })),
    ),
  fc.integer({ min: 5, max: 12 }),
);

function sum(line: readonly Contender[]): number {
  return line.reduce((total, contender) => total + permitsOf(contender), 0);
}

describe('the rule of a semaphore', () => {
  test('admits as many from the head as fit, and not one more', () => {
    fc.assert(
      fc.property(anySemaphore, ([line, limit]) => {
        const admitted = permits(limit).admitted(line);
        expect(sum(line.slice(0, admitted))).toBeLessThanOrEqual(limit);
        if (admitted < line.length) expect(sum(line.slice(0, admitted + 1))).toBeGreaterThan(limit);
      }),
    );
  });

  test('keeps those admitted who were, whoever leaves', () => {
    fc.assert(
      fc.property(anySemaphore, fc.nat(15), ([line, limit], leaver) => {
        const rule = permits(limit);
        const before = line.slice(0, rule.admitted(line)).filter((_, i) => i !== leaver);
        const left = line.filter((_, i) => i !== leaver);
        expect(left.slice(0, rule.admitted(left))).toEqual(expect.arrayContaining(before));
      }),
    );
  });

  test('lets nobody in when one leaves who is not watched', () => {
    fc.assert(
      fc.property(anySemaphore, fc.nat(15), ([line, limit], leaver) => {
        const rule = permits(limit);
        const gone = line[leaver];
        fc.pre(gone !== undefined && !standing(rule, line).includes(gone));
        const left = line.filter((_, i) => i !== leaver);
        expect(rule.admitted(left)).toBe(rule.admitted(line));
      }),
    );
  });
});

describe('the rule of a lock', () => {
  test('has everybody wait for its predecessor alone', () => {
    fc.assert(
      fc.property(anyPlace, ([line, index]) => {
        expect(exclusive('lock').blockers(line, index)).toEqual(index === 0 ? [] : [line[index - 1]]);
      }),
    );
  });
});

describe('the rule of a read-write lock', () => {
  test.each([
    ['RRR', 2, ''],
    ['RRW', 2, 'R0 R1'],
    ['WRR', 2, 'W0'],
    ['WRW', 2, 'W0 R1'],
    ['RWRRW', 4, 'W1 R2 R3'],
    ['RWRWR', 4, 'W3'],
    ['WWW', 2, 'W1'],
  ])('in the line %s has number %i wait for [%s]', (letters, index, expected) => {
    expect(names(readWrite.blockers(lineOf(letters), index))).toBe(expected);
  });

  test.each([
    ['', 0],
    ['R', 1],
    ['W', 1],
    ['RRWR', 2],
    ['WRR', 1],
    ['RRR', 3],
  ])('admits of the line %j the first %i', (letters, expected) => {
    expect(readWrite.admitted(lineOf(letters))).toBe(expected);
  });

  test('has a writer wait for everybody from the nearest writer on, and a reader for that writer alone', () => {
    fc.assert(
      fc.property(anyPlace, ([line, index]) => {
        const nearest = line.slice(0, index).findLastIndex(({ reads }) => !reads);
        const expected =
          line[index]?.reads === true
            ? line.slice(Math.max(0, nearest), nearest + 1)
            : line.slice(Math.max(0, nearest), index);
        expect(readWrite.blockers(line, index)).toEqual(expected);
      }),
    );
  });

  test('has each reader watched by one writer only, so that its leaving wakes one at most', () => {
    fc.assert(
      fc.property(anyLine, (line) => {
        for (const reader of line.filter(({ reads }) => reads)) {
          const watching = line.filter((_, i) => readWrite.blockers(line, i).includes(reader));
          expect(watching.length).toBeLessThanOrEqual(1);
        }
      }),
    );
  });

  test('asks a reader about writers only, and never about more than fit a request, the nearest of them', () => {
    const crowd = lineOf(`${'RW'.repeat(400)}R`);
    const suspects = readWrite.suspects(crowd, crowd.length - 1);
    expect(suspects).toHaveLength(SUSPECTS_MAX);
    expect(suspects.every(({ reads }) => !reads)).toBe(true);
    expect(suspects.at(-1)).toBe(crowd.at(-2));
  });
});

test('a kind that has no line has no rule', () => {
  expect(ruleOf('rwlock')).toBe(readWrite);
  expect(() => ruleOf('queue')).toThrow('a queue is no line');
});
