/** The models: histories that are known to be right or wrong. */
import { describe, expect, it } from 'vitest';
import { holdsModel, type HoldInput, type HoldOutput } from './holds-model.js';
import { checkLinearizable, type Model, type Operation } from './linearizable.js';
import {
  barrierModel,
  counterModel,
  groupModel,
  queueModel,
  registerModel,
  transactionModel,
  type CounterInput,
  type CounterOutput,
  type GroupInput,
  type GroupOutput,
  type QueueInput,
  type QueueOutput,
  type TransactionInput,
  type TransactionOutput,
} from './models.js';
import { settleQueue } from './queue/settle-queue.js';
import { transaction } from './workloads/transaction.js';

/** One operation: `client begin–end`, what it did, and what it was told. */
type Told<I, O> = [client: string, begin: number, end: number, input: I, output?: O];

function right<S, I, O>(model: Model<S, I, O>, ...told: Told<I, O>[]): boolean {
  const operations = told.map(([client, begin, end, input, output]) => ({ client, begin, end, input, output }));
  const { linearizable } = checkLinearizable(model, operations);
  if (linearizable === undefined) throw new Error('so few operations can be decided on');
  return linearizable;
}

const NEVER = Infinity;

describe('a lock', () => {
  const lock = holdsModel();
  const acquire = (by: string): HoldInput => ({ do: 'acquire', by });
  const release = (by: string): HoldInput => ({ do: 'release', by });
  const token = (value: number): HoldOutput => ({ token: value });
  const done = (value: boolean): HoldOutput => ({ done: value });

  it('goes from hand to hand', () => {
    expect(
      right(
        lock,
        ['a', 0, 10, acquire('a'), token(5)],
        ['b', 5, 30, acquire('b'), token(7)],
        ['a', 15, 20, release('a'), done(true)],
        ['c', 40, 41, { do: 'check', token: 5 }, done(false)],
        ['c', 42, 43, { do: 'check', token: 7 }, done(true)],
        ['c', 44, 45, { do: 'see', token: 7 }],
      ),
    ).toBe(true);
  });

  it('has no two holders', () => {
    expect(right(lock, ['a', 0, 10, acquire('a'), token(5)], ['b', 11, 20, acquire('b'), token(7)])).toBe(false);
    // Overlapping or not: nobody has let go.
    expect(right(lock, ['a', 0, 20, acquire('a'), token(5)], ['b', 1, 20, acquire('b'), token(7)])).toBe(false);
  });

  it('gives no token that is not higher than all before', () => {
    const history = (second: number): boolean =>
      right(
        lock,
        ['a', 0, 1, acquire('a'), token(5)],
        ['a', 2, 3, release('a'), done(true)],
        ['b', 4, 5, acquire('b'), token(second)],
      );
    expect(history(6)).toBe(true);
    expect(history(5)).toBe(false);
    expect(history(4)).toBe(false);
  });

  it('is free when its lease has ended, and not before', () => {
    const history = (ends: [number, number]): boolean =>
      right(
        lock,
        ['a', 0, 1, acquire('a'), token(5)],
        ['a', ...ends, { do: 'end', by: 'a' }],
        ['b', 10, 20, acquire('b'), token(6)],
      );
    expect(history([5, NEVER])).toBe(true);
    expect(history([30, NEVER])).toBe(false);
  });

  it('may or may not have been given where nobody knows', () => {
    const first: Told<HoldInput, HoldOutput> = ['a', 0, NEVER, acquire('a')];
    expect(right(lock, first, ['b', 5, 6, acquire('b'), token(6)])).toBe(true);
    expect(right(lock, first, ['b', 5, 6, { do: 'see', token: 4 }])).toBe(true);
    expect(right(lock, first, ['b', 5, 6, acquire('b'), token(6)], ['a', 7, 8, acquire('a'), token(4)])).toBe(false);
    expect(right(lock, first, ['a', 7, 8, acquire('a'), token(4)], ['a', 9, 10, release('a'), done(true)])).toBe(true);
  });

  it('is left by a release of somebody who may wait, and refused to nobody who holds it', () => {
    const [holder, waiter]: Told<HoldInput, HoldOutput>[] = [
      ['a', 0, 1, acquire('a'), token(5)],
      ['b', 2, NEVER, acquire('b')],
    ] as const;
    if (holder === undefined || waiter === undefined) throw new Error('two were given');
    const leave: HoldInput = { do: 'release', by: 'b', mayStand: true };
    expect(right(lock, holder, waiter, ['b', 3, 4, leave, done(true)])).toBe(true);
    expect(right(lock, holder, waiter, ['b', 3, 4, release('b'), done(true)])).toBe(false);
    expect(right(lock, holder, waiter, ['b', 3, 4, release('b'), done(false)])).toBe(true);
    expect(right(lock, holder, ['b', 3, 4, release('b'), done(true)])).toBe(false);
    expect(right(lock, holder, ['a', 2, 3, acquire('a'), { refused: true }])).toBe(false);
  });

  it('is not let go by somebody who does not hold it', () => {
    expect(right(lock, ['a', 0, 1, acquire('a'), token(5)], ['b', 2, 3, release('b'), done(true)])).toBe(false);
  });
});

describe('a read-write lock and a semaphore', () => {
  const read = (by: string): HoldInput => ({ do: 'acquire', by, reads: true });
  const write = (by: string): HoldInput => ({ do: 'acquire', by });

  it('are shared by readers, and by nobody with a writer', () => {
    const lock = holdsModel();
    expect(right(lock, ['a', 0, 1, read('a'), { token: 5 }], ['b', 2, 3, read('b'), { token: 4 }])).toBe(true);
    expect(right(lock, ['a', 0, 1, read('a'), { token: 5 }], ['b', 2, 3, write('b'), { token: 6 }])).toBe(false);
    expect(right(lock, ['a', 0, 1, write('a'), { token: 5 }], ['b', 2, 3, read('b'), { token: 6 }])).toBe(false);
  });

  it('give no more permits than there are', () => {
    const take = (by: string, permits: number): HoldInput => ({ do: 'acquire', by, permits });
    const three = holdsModel(3);
    expect(right(three, ['a', 0, 1, take('a', 2), { token: 5 }], ['b', 2, 3, take('b', 1), { token: 6 }])).toBe(true);
    expect(right(three, ['a', 0, 1, take('a', 2), { token: 5 }], ['b', 2, 3, take('b', 2), { token: 6 }])).toBe(false);
  });
});

describe('a register', () => {
  it('is written by who saw it last', () => {
    const history = (ifMatch: string): boolean =>
      right(
        registerModel,
        ['a', 0, 1, { do: 'put', value: 'x' }, { etag: '1' }],
        ['b', 2, 3, { do: 'put', value: 'y' }, { etag: '2' }],
        ['a', 4, 5, { do: 'put', value: 'z', ifMatch }, { etag: '3' }],
      );
    expect(history('2')).toBe(true);
    expect(history('1')).toBe(false);
  });

  it('shows no value from before a write that was answered', () => {
    const history = (value: string, etag: string): boolean =>
      right(
        registerModel,
        ['a', 0, 1, { do: 'put', value: 'x' }, { etag: '1' }],
        ['a', 2, 3, { do: 'put', value: 'y' }, { etag: '2' }],
        ['b', 4, 5, { do: 'get' }, { value, etag }],
      );
    expect(history('y', '2')).toBe(true);
    expect(history('x', '1')).toBe(false);
  });

  it('may have been written where nobody knows, but not twice', () => {
    const unknown: Told<{ do: 'put'; value: string }, never> = ['a', 0, NEVER, { do: 'put', value: 'x' }];
    const get = (at: number, value: string | null, etag: string | null) =>
      ['b', at, at + 1, { do: 'get' as const }, { value, etag }] as Told<
        { do: 'get' },
        { value: string | null; etag: string | null }
      >;
    expect(right(registerModel, unknown, get(2, null, null), get(4, 'x', '1'))).toBe(true);
    expect(right(registerModel, unknown, get(2, 'x', '1'), get(4, null, null))).toBe(false);
    expect(
      right(
        registerModel,
        unknown,
        get(2, 'x', '1'),
        ['c', 4, 5, { do: 'put', value: 'y' }, { etag: '2' }],
        get(6, 'x', '3'),
      ),
    ).toBe(false);
  });
});

describe('a counter', () => {
  it('counts each addition once', () => {
    const add = (at: number, end: number, value: number): Told<CounterInput, CounterOutput> => [
      'a',
      at,
      end,
      { do: 'add', by: 1 },
      { value },
    ];
    expect(right(counterModel, add(0, 9, 2), add(0, 9, 1), add(0, 9, 3))).toBe(true);
    expect(right(counterModel, add(0, 9, 1), add(0, 9, 1))).toBe(false);
    expect(right(counterModel, add(0, 1, 2), add(2, 3, 1))).toBe(false);
  });

  it('is 0 when it was deleted, and is deleted once', () => {
    const add = (at: number, value: number): Told<CounterInput, CounterOutput> => [
      'a',
      at,
      at + 1,
      { do: 'add', by: 1 },
      { value },
    ];
    const remove = (at: number, deleted: boolean): Told<CounterInput, CounterOutput> => [
      'b',
      at,
      at + 1,
      { do: 'delete' },
      { deleted },
    ];
    expect(right(counterModel, remove(0, false), add(2, 1), remove(4, true), remove(6, false), add(8, 1))).toBe(true);
    expect(right(counterModel, add(0, 1), remove(2, true), add(4, 2))).toBe(false);
    expect(right(counterModel, add(0, 1), remove(2, false))).toBe(false);
    expect(right(counterModel, add(0, 1), remove(2, true), remove(4, true))).toBe(false);
  });
});

describe('a queue', () => {
  const push = (id: string, begin: number, end: number): Told<{ do: 'push'; id: string }, { pushed: true }> => [
    'p',
    begin,
    end,
    { do: 'push', id },
    { pushed: true },
  ];
  const pop = (popped: string | null, begin: number, end: number): Told<{ do: 'pop' }, { popped: string | null }> => [
    'c',
    begin,
    end,
    { do: 'pop' },
    { popped },
  ];

  it('is first in, first out', () => {
    expect(right(queueModel, push('1', 0, 1), push('2', 2, 3), pop('1', 4, 5), pop('2', 6, 7))).toBe(true);
    expect(right(queueModel, push('1', 0, 1), push('2', 2, 3), pop('2', 4, 5), pop('1', 6, 7))).toBe(false);
    expect(right(queueModel, push('1', 0, 5), push('2', 0, 5), pop('2', 6, 7), pop('1', 8, 9))).toBe(true);
  });

  it('tells in the end what became of operations that nobody knows of', () => {
    const settled = (...told: Told<QueueInput, QueueOutput>[]): boolean => {
      const operations = told.map(([client, begin, end, input, output]) => ({ client, begin, end, input, output }));
      for (const history of settleQueue(operations))
        if (checkLinearizable(queueModel, history).linearizable) return true;
      return false;
    };
    const lost: Told<QueueInput, QueueOutput> = ['p', 2, NEVER, { do: 'push', id: '2' }];
    const taken: Told<QueueInput, QueueOutput> = ['c', 2, NEVER, { do: 'pop' }];
    expect(settled(push('1', 0, 1), lost, pop('1', 4, 5), pop(null, 6, 7))).toBe(true);
    expect(settled(push('1', 0, 1), lost, pop('1', 4, 5), pop('2', 6, 7), pop(null, 8, 9))).toBe(true);
    expect(settled(push('1', 0, 1), push('3', 1, 1.5), taken, pop('3', 4, 5), pop(null, 6, 7))).toBe(true);
    expect(settled(push('1', 0, 1), push('3', 1, 1.5), taken, pop('1', 4, 5), pop(null, 6, 7))).toBe(true);
    expect(settled(push('1', 0, 1), push('3', 1, 1.5), pop('3', 4, 5), pop(null, 6, 7))).toBe(false);
  });

  it('hands nothing out twice, and is empty only when it is', () => {
    expect(right(queueModel, push('1', 0, 1), pop('1', 2, 3), pop('1', 4, 5))).toBe(false);
    expect(right(queueModel, push('1', 0, 1), pop(null, 2, 3))).toBe(false);
    expect(right(queueModel, push('1', 0, 4), pop(null, 2, 3), pop('1', 5, 6))).toBe(true);
  });
});

describe('a name in a group', () => {
  const join = (by: string, at: number, output: GroupOutput = { done: true }): Told<GroupInput, GroupOutput> => [
    by,
    at,
    at + 1,
    { do: 'join', member: 'm', by, value: by },
    output,
  ];
  const look = (value: string | null, at: number): Told<GroupInput, GroupOutput> => [
    'l',
    at,
    at + 1,
    { do: 'look', member: 'm' },
    { value },
  ];
  const end: Told<GroupInput, GroupOutput> = ['a', 2, 3, { do: 'end', by: 'a' }];
  const leave: Told<GroupInput, GroupOutput> = ['b', 2, 3, { do: 'leave', member: 'm', by: 'b' }, { done: true }];

  it('belongs to one lease until that leaves or ends', () => {
    expect(right(groupModel, join('a', 0), look('a', 2), join('b', 4, { refused: true }))).toBe(true);
    expect(right(groupModel, join('a', 0), end, join('b', 4), look('b', 6))).toBe(true);
    expect(right(groupModel, join('a', 0), join('b', 4))).toBe(false);
    expect(right(groupModel, join('b', 4, { refused: true }))).toBe(false);
    expect(right(groupModel, join('a', 0), leave)).toBe(false);
  });

  it('is gone with it', () => {
    expect(right(groupModel, join('a', 0), end, look(null, 4))).toBe(true);
    expect(right(groupModel, join('a', 0), end, look('a', 4))).toBe(false);
    expect(right(groupModel, join('a', 0), look(null, 4))).toBe(false);
    expect(right(groupModel, end, join('a', 4))).toBe(false);
  });
});

describe('a barrier and a transaction', () => {
  it('is seen as it was left', () => {
    const look = (raised: boolean, at: number) =>
      ['b', at, at + 1, { do: 'look' as const }, { raised }] as Told<{ do: 'look' }, { raised: boolean }>;
    const raise: Told<{ do: 'raise' }, { raised: boolean }> = ['a', 0, 1, { do: 'raise' }, { raised: true }];
    expect(right(barrierModel, raise, look(true, 2))).toBe(true);
    expect(right(barrierModel, raise, look(false, 2))).toBe(false);
  });

  it('has one decision, and commits only when all have voted for it', () => {
    const two = transactionModel(2);
    type State = 'open' | 'committed' | 'aborted';
    const vote = (participant: string, at: number, state: State): Told<TransactionInput, TransactionOutput> => [
      participant,
      at,
      at + 1,
      { do: 'vote', participant, vote: 'commit', by: participant },
      { state },
    ];
    const look = (at: number, state: State): Told<TransactionInput, TransactionOutput> => [
      'l',
      at,
      at + 1,
      { do: 'look' },
      { state },
    ];
    const check = (...told: Told<TransactionInput, TransactionOutput>[]): boolean => right(two, ...told);
    expect(check(vote('a', 0, 'open'), vote('b', 2, 'committed'), look(4, 'committed'))).toBe(true);
    expect(check(vote('a', 0, 'open'), vote('b', 2, 'open'), look(4, 'committed'))).toBe(true);
    expect(check(vote('a', 0, 'open'), look(2, 'committed'))).toBe(false);
    expect(check(vote('a', 0, 'open'), vote('b', 2, 'committed'), look(4, 'aborted'))).toBe(false);
    expect(check(vote('a', 0, 'open'), look(2, 'aborted'), vote('b', 4, 'committed'))).toBe(false);
    // A participant was lost in between.
    const end: Told<TransactionInput, TransactionOutput> = ['a', 2, 3, { do: 'end', by: 'a' }];
    expect(check(vote('a', 0, 'open'), end, vote('b', 4, 'aborted'))).toBe(true);
    expect(check(vote('a', 0, 'open'), end, vote('b', 4, 'committed'))).toBe(false);
    expect(check(end, vote('a', 4, 'open'), vote('b', 6, 'committed'))).toBe(true);
    // Somebody else is this participant.
    const other: Told<TransactionInput, TransactionOutput> = [
      'c',
      2,
      3,
      { do: 'vote', participant: 'a', vote: 'abort', by: 'c' },
      { refused: true },
    ];
    expect(check(vote('a', 0, 'open'), other, vote('b', 4, 'committed'))).toBe(true);
  });

  it('may be told to be committed to all who vote at the same moment, and to nobody before', () => {
    const vote = (participant: string, begin: number, end: number): Operation<TransactionInput, TransactionOutput> => ({
      client: participant,
      begin,
      end,
      input: { do: 'vote', participant, vote: 'commit', by: participant },
      output: { state: 'committed' },
    });
    const all = [{ ...vote('red', 0, 1), output: { state: 'open' } } as const, vote('green', 2, 6), vote('blue', 3, 7)];
    expect(transaction.check(all)).toEqual([]);
    const early = [all[0], vote('green', 2, 3), vote('blue', 4, 7)] as typeof all;
    expect(transaction.check(early)).toEqual([expect.stringContaining('not linearizable')]);
  });
});
