import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { divide, type Owners } from '../../../src/recipes/group/divide.js';

const names = fc.uniqueArray(fc.stringMatching(/^[a-z0-9]{1,6}$/), { maxLength: 40 });
const parts = fc.integer({ min: 1, max: 300 });
/** A history of memberships, each divided from the one before. */
const histories = fc.array(names, { minLength: 1, maxLength: 6 });

function loads(owners: Owners, members: readonly string[]): number[] {
  return members.map((member) => owners.filter((owner) => owner === member).length);
}

function moved(before: Owners, after: Owners): number {
  return after.filter((owner, part) => before[part] !== undefined && owner !== before[part]).length;
}

function after(of: number, history: readonly string[][]): Owners {
  return history.reduce<Owners>((owners, members) => divide(of, members, owners), []);
}

describe('dividing parts', () => {
  test('gives every part exactly one owner, who is a member; without members nobody owns anything', () => {
    fc.assert(
      fc.property(parts, histories, names, (of, history, members) => {
        const owners = divide(of, members, after(of, history));
        expect(owners).toHaveLength(of);
        for (let part = 0; part < of; part += 1)
          if (members.length === 0) expect(owners[part]).toBeUndefined();
          else expect(members).toContain(owners[part]);
      }),
    );
  });

  test('makes shares that differ by at most one part', () => {
    fc.assert(
      fc.property(parts, histories, names, (of, history, members) => {
        fc.pre(members.length > 0);
        const all = loads(divide(of, members, after(of, history)), members);
        expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(1);
      }),
    );
  });

  test('moves, when one joins, what that one gets and no more: at most an n-th part of all, rounded down', () => {
    fc.assert(
      fc.property(parts, histories, names, (of, history, members) => {
        fc.pre(members.length > 0);
        const before = divide(of, members, after(of, history));
        const joined = [...members, 'newcomer'];
        const now = divide(of, joined, before);
        expect(moved(before, now)).toBe(loads(now, ['newcomer'])[0]);
        expect(moved(before, now)).toBeLessThanOrEqual(Math.floor(of / joined.length));
      }),
    );
  });

  test('moves, when one leaves, what that one had and no more: at most an n-th part of all, rounded up', () => {
    fc.assert(
      fc.property(parts, histories, names, fc.nat(), (of, history, members, at) => {
        fc.pre(members.length > 1);
        const before = divide(of, members, after(of, history));
        const gone = members[at % members.length] as string;
        const now = divide(
          of,
          members.filter((name) => name !== gone),
          before,
        );
        expect(moved(before, now)).toBe(loads(before, [gone])[0]);
        expect(moved(before, now)).toBeLessThanOrEqual(Math.ceil(of / members.length));
      }),
    );
  });

  test('moves nothing when nobody comes or goes, in whatever order they are named', () => {
    fc.assert(
      fc.property(parts, histories, names, (of, history, members) => {
        const before = divide(of, members, after(of, history));
        expect(divide(of, [...members].reverse(), before)).toEqual(before);
        expect(divide(of, [...members].reverse(), after(of, history))).toEqual(before);
      }),
    );
  });

  test('moves, when several come and go at once, no more than every balanced division must', () => {
    fc.assert(
      fc.property(parts, histories, names, (of, history, members) => {
        fc.pre(members.length > 0);
        const before = after(of, history);
        const now = divide(of, members, before);
        // Whoever stays keeps at most its quota; those who had most may have the larger quotas.
        const had = loads(before, members).sort((a, b) => b - a);
        const least = Math.floor(of / members.length);
        const kept = had.reduce(
          (sum, load, rank) => sum + Math.min(load, least + (rank < of % members.length ? 1 : 0)),
          0,
        );
        expect(now.filter((owner, part) => owner === before[part]).length).toBe(kept);
      }),
    );
  });
});
