/** Names and records of contenders: what is written can be read, and what others wrote is not taken for ours. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jsonOf } from '../../../src/json-text.js';
import {
  decodeHoldId,
  decodeRecord,
  encodeHoldId,
  encodeRecord,
  guidOf,
  holdIdOf,
  holdNodeName,
  modeOf,
  nodePrefix,
  ownHoldId,
  parseContender,
  prefixOf,
  shownLine,
  sortLine,
  type Contender,
  type ContenderRecord,
} from '../../../src/recipes/line/contender.js';
import { formatSequence, LAST_SEQUENCE } from '../../../src/zookeeper/paths.js';
import type { Stat } from '../../../src/zookeeper/operations.js';

const anySequence = fc.integer({ min: 0, max: LAST_SEQUENCE });
const anyPrefix = fc.constantFrom('lock-', '__READ__', '__WRIT__', 'latch-');
const anyHold = fc.record({
  prefix: anyPrefix,
  guid: fc.uuid(),
  sequence: anySequence,
  czxid: fc.maxSafeNat(),
});

describe('the name of a contender', () => {
  test('tells guid, sequence and whether it reads, as it was made', () => {
    fc.assert(
      fc.property(fc.uuid(), anyPrefix, anySequence, (guid, prefix, sequence) => {
        const name = nodePrefix(guid, prefix) + formatSequence(sequence);
        expect(guidOf(name)).toBe(guid);
        expect(parseContender(name)).toEqual({ name, sequence, reads: prefix === '__READ__' });
      }),
    );
  });

  test.each([
    ['lock', 'exclusive', 'lock-'],
    ['election', 'exclusive', 'latch-'],
    ['rwlock', 'read', '__READ__'],
    ['rwlock', 'write', '__WRIT__'],
  ] as const)('is made for a %s in mode %s with %s, and tells the mode again', (kind, mode, prefix) => {
    expect(prefixOf(kind, mode)).toBe(prefix);
    const contender = parseContender(
      `${nodePrefix('3f0c2b1a-0000-4000-8000-000000000000', prefix)}0000000007`,
    ) as Contender;
    expect(modeOf(contender)).toBe(mode);
  });

  test.each(['', 'lock', 'config', '_c_3f0c2b1a-lock-', '_c_x-lock-123'])(
    'is not %j, which has no sequence number',
    (name) => {
      expect(parseContender(name)).toBeUndefined();
    },
  );

  test("knows kazoo's readers as such, and its writers as somebody who excludes all others", () => {
    expect(parseContender('9a1e3c__rlock__0000000003')).toMatchObject({ sequence: 3, reads: true });
    expect(parseContender('9a1e3c__lock__0000000004')).toMatchObject({ sequence: 4, reads: false });
  });

  test.each(['read-0000000001', 'x__READ__y0000000001', '_c_stranger-lock-0000000003'])(
    'of a foreign client that does not say that it reads, %s, excludes all others and has no guid',
    (name) => {
      expect(parseContender(name)?.reads).toBe(false);
      expect(guidOf(name)).toBeUndefined();
    },
  );
});

describe('a line', () => {
  test('is sorted by sequence whatever stands before it', () => {
    const start = fc.integer({ min: 0, max: LAST_SEQUENCE - 200 });
    const gaps = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), anyPrefix, fc.uuid()), { maxLength: 20 });
    fc.assert(
      fc.property(start, gaps, fc.infiniteStream(fc.nat()), (first, members, order) => {
        let sequence = first;
        const inOrder = members.map(([gap, prefix, guid]) => {
          sequence += gap;
          return nodePrefix(guid, prefix) + formatSequence(sequence);
        });
        const shuffled = inOrder
          .map((name) => ({ name, at: order.next().value }))
          .sort((a, b) => a.at - b.at)
          .map(({ name }) => name);
        expect(sortLine(shuffled).map(({ name }) => name)).toEqual(inOrder);
      }),
    );
  });

  test("puts the reader that Curator gives a writer's own sequence number behind that writer", () => {
    const writer = '_c_3f0c2b1a-0000-4000-8000-000000000000-__WRIT__0000000005';
    const reader = '_c_3f0c2b1a-0000-4000-8000-000000000001-__READ__0000000005';
    expect(sortLine([reader, writer]).map(({ name }) => name)).toEqual([writer, reader]);
  });

  test('does not have in it what has no sequence number', () => {
    expect(sortLine(['lease', 'x', 'lock-0000000001']).map(({ name }) => name)).toEqual(['lock-0000000001']);
  });
});

describe('a holdId', () => {
  test('names kind, guid, sequence and incarnation of a node, and its path', () => {
    fc.assert(
      fc.property(anyHold, (hold) => {
        const holdId = encodeHoldId(hold);
        expect(decodeHoldId(holdId)).toEqual(hold);
        expect(ownHoldId(holdNodeName(hold), hold.czxid)).toBe(holdId);
      }),
    );
  });

  test('of two holds is never the same', () => {
    fc.assert(
      fc.property(anyHold, anyHold, (one, two) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(two));
        expect(encodeHoldId(one)).not.toBe(encodeHoldId(two));
      }),
    );
  });

  test('that was made up is not taken for one, and nothing that is said instead of it throws', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const hold = decodeHoldId(text);
        if (hold !== undefined) expect(encodeHoldId(hold)).toBe(text);
      }),
    );
    const holdId = encodeHoldId({
      prefix: 'lock-',
      guid: '3f0c2b1a-0000-4000-8000-000000000000',
      sequence: 1,
      czxid: 2,
    });
    for (const wrong of [`${holdId}A`, holdId.slice(1), `${holdId}=`, ` ${holdId}`, `/${holdId.slice(1)}`])
      expect(decodeHoldId(wrong)).toBeUndefined();
  });

  test('that is shown for a foreign node cannot be released', () => {
    const stranger: Contender = { name: '_c_stranger-lock-0000000003', sequence: 3, reads: false };
    expect(decodeHoldId(holdIdOf(stranger, { czxid: 77 } as Stat))).toBeUndefined();
    expect(ownHoldId(stranger.name, 77)).toBeUndefined();
  });
});

describe('the record of a contender', () => {
  const anyRecord: fc.Arbitrary<ContenderRecord> = fc.record(
    {
      state: fc.constantFrom('waiting', 'granted'),
      attempt: fc.string(),
      leaseId: fc.string(),
      principal: fc.string(),
      label: fc.string({ unit: 'binary' }),
      requestId: fc.string(),
      waitUntil: fc.maxSafeNat(),
      grantedAt: fc.maxSafeNat(),
      leaseToken: fc.string(),
    },
    { requiredKeys: ['state', 'attempt', 'leaseId', 'principal', 'label', 'requestId'] },
  );

  test('is read as it was written', () => {
    fc.assert(
      fc.property(
        anyRecord,
        fc.option(fc.jsonValue({ noUnicodeString: false }), { nil: undefined }),
        (record, value) => {
          // As it goes over the wire: JSON knows no -0.
          const data: unknown = value === undefined ? undefined : JSON.parse(JSON.stringify(value));
          const written = data === undefined ? record : { ...record, data };
          expect(JSON.parse(jsonOf(decodeRecord(encodeRecord(written))))).toEqual(written);
        },
      ),
    );
  });

  test.each(['', '10.0.0.1', '{', '{}', '[]', '{"state":"granted"}', '{"state":"held","leaseId":"x","attempt":"y"}'])(
    'is not what a foreign client has in its node: %j',
    (data) => {
      expect(decodeRecord(Buffer.from(data))).toBeUndefined();
    },
  );

  test('is not found in any bytes that others may write', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(decodeRecord(Buffer.concat([Buffer.from('{'), bytes]))).toBeUndefined();
      }),
    );
  });
});

describe('what is shown of a line', () => {
  const own = (digit: number): string => `3f0c2b1a-0000-8000-8000-00000000000${digit}`;
  const named = (guid: string, sequence: number): string => nodePrefix(guid, '__READ__') + formatSequence(sequence);
  const shown = (...children: string[]): string[] => shownLine(children).map(({ name }) => name);

  test('is one place for each request, also while a repetition of it has a second node', () => {
    const [first, second, third] = [named(own(1), 4), named(own(2), 5), named(own(1), 6)] as const;
    expect(shown(third, second, first)).toEqual([first, second]);
    expect(shown(third, second)).toEqual([second, third]);
  });

  test('is everybody else as they stand: others may use one name for several places', () => {
    const foreign = '3f0c2b1a-0000-4000-8000-000000000001';
    expect(shown(named(foreign, 4), named(foreign, 5), 'lock-0000000006', 'lock-0000000007')).toHaveLength(4);
  });
});
