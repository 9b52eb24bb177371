/** The model of messages to a group: histories that are known to be right or wrong. */
import { describe, expect, it } from 'vitest';
import { checkLinearizable } from './linearizable.js';
import { messagesModel, type MessagesInput, type MessagesOutput } from './messages-model.js';

type Told = [client: string, begin: number, end: number, input: MessagesInput, output?: MessagesOutput];

function right(...told: Told[]): boolean | undefined {
  const operations = told.map(([client, begin, end, input, output]) => ({ client, begin, end, input, output }));
  return checkLinearizable(messagesModel, operations).linearizable;
}

const NEVER = Infinity;
const post = (body: string): MessagesInput => ({ do: 'post', body });
const behind = (after: number): MessagesInput => ({ do: 'read', after });
const read = (...read: [number, string][]): MessagesOutput => ({ read, cursor: read.at(-1)?.[0] ?? 8, missed: false });

describe('the messages to a group', () => {
  it('are read by everybody in the order of their numbers, from the cursor on', () => {
    expect(
      right(
        ['r', 0, 1, { do: 'begin' }, { cursor: 3 }],
        ['a', 2, 6, post('x'), { number: 7 }],
        ['b', 2, 6, post('y'), { number: 8 }],
        ['r', 7, 8, behind(3), read([7, 'x'], [8, 'y'])],
        ['s', 7, 8, behind(7), read([8, 'y'])],
        ['t', 7, 8, { do: 'begin' }, { cursor: 8 }],
        ['t', 9, 10, behind(8), read()],
      ),
    ).toBe(true);
  });

  it('have the order in which they were answered', () => {
    expect(right(['a', 0, 1, post('x'), { number: 8 }], ['b', 2, 3, post('y'), { number: 7 }])).toBe(false);
  });

  it('are not in two orders', () => {
    const posts: Told[] = [
      ['a', 0, 9, post('x')],
      ['b', 0, 9, post('y')],
    ];
    expect(right(...posts, ['r', 1, 2, behind(0), read([7, 'x'], [8, 'y'])])).toBe(true);
    expect(
      right(
        ...posts,
        ['r', 1, 2, behind(0), read([7, 'x'], [8, 'y'])],
        ['s', 1, 2, behind(0), read([7, 'y'], [8, 'x'])],
      ),
    ).toBe(false);
  });

  it('are not lost, nor read twice, nor made up', () => {
    const posts: Told[] = [
      ['a', 0, 1, post('x'), { number: 7 }],
      ['a', 2, 3, post('y'), { number: 8 }],
    ];
    expect(right(...posts, ['r', 4, 5, behind(0), read([7, 'x'])])).toBe(false);
    expect(right(...posts, ['r', 4, 5, behind(7), read()])).toBe(false);
    expect(right(...posts, ['r', 4, 5, behind(7), read([7, 'x'], [8, 'y'])])).toBe(false);
    expect(right(...posts, ['r', 4, 5, behind(8), read([9, 'z'])])).toBe(false);
    expect(right(...posts, ['r', 4, 5, { do: 'begin' }, { cursor: 7 }])).toBe(false);
    expect(right(...posts, ['r', 4, 5, behind(0), { read: [], cursor: 8, missed: true }])).toBe(false);
  });

  it('of which nobody was told may have come, and come once', () => {
    expect(right(['a', 0, NEVER, post('x')], ['r', 2, 3, behind(0), read([7, 'x'])])).toBe(true);
    expect(right(['a', 0, NEVER, post('x')], ['r', 2, 3, behind(0), read()])).toBe(true);
    expect(right(['a', 0, NEVER, post('x')], ['r', 2, 3, behind(0), read([7, 'x'], [8, 'x'])])).toBe(false);
  });
});
