/** What a process answers is bounded in bytes, and shares the room among the namespaces. */
import { describe, expect, it } from 'vitest';
import { ANSWER_BYTES_MAX, decodeAnswer, encodeAnswer } from '../../../src/recipes/contention/answer.js';
import type { ContentionTold } from '../../../src/recipes/waiting/contention.js';

const SELF = { process: 'p', replica: 'host:7070', group: 'g' };

function told(name: string, waiting: number): ContentionTold {
  const counts = { oldestWaitMs: 1, waits: 2, waitMs: 3, longestWaitMs: 4, conflicts: 0 };
  return { kind: 'lock', scopeKind: 'lock', name, waiting, ...counts };
}

/** With the longest line last. */
const crowd = (count: number): ContentionTold[] =>
  Array.from({ length: count }, (_, i) => told(`name-${i}-${'x'.repeat(200)}`, i));

describe('an answer', () => {
  it('is read as it was written, complete when everything is in it', () => {
    const all = new Map([
      ['default', [told('a', 1), told('b', 7)]],
      ['__proto__', [told('c', 2)]],
    ]);
    const read = decodeAnswer(encodeAnswer(SELF, 9, all));
    expect(read).toMatchObject({ ...SELF, question: 9, complete: true });
    expect(read?.namespaces).toEqual([
      { namespace: 'default', told: [told('b', 7), told('a', 1)], complete: true },
      { namespace: '__proto__', told: [told('c', 2)], complete: true },
    ]);
  });

  it('has of many names the most contended, as many of one namespace as of another, and says that some are missing', () => {
    const all = new Map([
      ['large', crowd(5_000)],
      ['small', [told('only', 1)]],
      ['other', crowd(1_000)],
    ]);
    const encoded = encodeAnswer(SELF, 1, all);
    expect(encoded.length).toBeLessThanOrEqual(ANSWER_BYTES_MAX);
    expect(encoded.length).toBeGreaterThan(ANSWER_BYTES_MAX / 2);
    const read = decodeAnswer(encoded);
    const of = (namespace: string) => read?.namespaces.find((one) => one.namespace === namespace);
    expect(of('small')).toMatchObject({ complete: true, told: [{ name: 'only' }] });
    expect(of('large')).toMatchObject({ complete: false, told: { 0: { waiting: 4_999 }, 1: { waiting: 4_998 } } });
    expect(of('other')?.told[0]).toMatchObject({ waiting: 999 });
    expect(Math.abs((of('large')?.told.length ?? 0) - (of('other')?.told.length ?? 0))).toBeLessThanOrEqual(1);
    expect(read?.complete).toBe(true);
  });

  it('says that namespaces are missing', () => {
    const all = new Map(Array.from({ length: 3_000 }, (_, i) => [`namespace-${i}`, [told(`name-${i}`, i)]]));
    const encoded = encodeAnswer(SELF, 1, all);
    expect(encoded.length).toBeLessThanOrEqual(ANSWER_BYTES_MAX);
    const read = decodeAnswer(encoded);
    expect(read).toMatchObject({ complete: false });
    expect(read?.namespaces.map(({ namespace }) => namespace)).toContain('namespace-2999');
  });

  it.each([
    'no JSON',
    'null',
    '{}',
    '{"process":"p","replica":"r","group":"g","question":1,"complete":true}',
    '{"process":"p","replica":"r","group":"g","question":"1","complete":true,"namespaces":[]}',
    '{"process":"p","replica":"r","group":"g","question":1,"complete":true,"namespaces":[{"namespace":"n","complete":true,"told":[{"kind":"lock"}]}]}',
  ])('is not %s', (text) => {
    expect(decodeAnswer(Buffer.from(text))).toBeUndefined();
  });
});
