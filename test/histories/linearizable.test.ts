/** The checker itself: random histories against a search that tries every order, and the edges of its search. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkLinearizable, type Model, type Operation } from './linearizable.js';
import { counterModel, type CounterInput, type CounterOutput } from './models.js';
import { decodeOperation, encodeOperation } from './workload.js';

describe('the search', () => {
  /** Tries every order of all that has an end, with and without each that has none. */
  function bruteForce<S, I, O>(
    model: Model<S, I, O>,
    operations: readonly Operation<I, O>[],
    state = model.initial,
  ): boolean {
    if (operations.every(({ end }) => end === Infinity)) return true;
    const firstEnd = Math.min(...operations.map(({ end }) => end));
    return operations.some((operation, i) => {
      if (operation.begin > firstEnd) return false;
      const after = model.step(state, operation.input, operation.output);
      return after !== undefined && bruteForce(model, operations.toSpliced(i, 1), after);
    });
  }

  const input: fc.Arbitrary<CounterInput> = fc.oneof(
    fc.record({ do: fc.constant('add' as const), by: fc.integer({ min: 1, max: 2 }) }),
    fc.constant({ do: 'get' as const }),
    fc.constant({ do: 'delete' as const }),
    fc.record({
      do: fc.constant('set' as const),
      value: fc.integer({ min: 0, max: 2 }),
      expected: fc.integer({ min: 0, max: 2 }),
    }),
  );
  const output: fc.Arbitrary<CounterOutput | undefined> = fc.oneof(
    { weight: 6, arbitrary: fc.record({ value: fc.integer({ min: 0, max: 4 }) }) },
    { weight: 1, arbitrary: fc.constant({ mismatch: true as const }) },
    { weight: 1, arbitrary: fc.record({ deleted: fc.boolean() }) },
    { weight: 2, arbitrary: fc.constant(undefined) },
  );
  const operation = fc
    .record({ client: fc.constant('c'), begin: fc.nat(12), lasts: fc.integer({ min: 1, max: 8 }), input, output })
    .map(({ lasts, ...rest }): Operation<CounterInput, CounterOutput> => ({
      ...rest,
      end: rest.output === undefined ? Infinity : rest.begin + lasts,
    }));

  it('says what trying every order says', () => {
    let wrong = 0;
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 7 }), (operations) => {
        const { linearizable } = checkLinearizable(counterModel, operations);
        wrong += Number(!linearizable);
        expect(linearizable).toBe(bruteForce(counterModel, operations));
      }),
      { numRuns: 3_000 },
    );
    expect(wrong).toBeGreaterThan(100);
  });

  it('finds its way through long histories that are right, and notices one wrong answer in them', () => {
    fc.assert(
      fc.property(fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), fc.nat(399), (chance, at) => {
        const operations: Operation<CounterInput, CounterOutput>[] = [];
        let value = 0;
        for (let i = 0; i < 400; i += 1) {
          const by = 1 + Math.floor(3 * (chance.next().value as number));
          value += by;
          const [before, after] = [10 * (chance.next().value as number), 10 * (chance.next().value as number)];
          operations.push({
            client: 'c',
            begin: i - before,
            end: i + after,
            input: { do: 'add', by },
            output: { value },
          });
        }
        expect(checkLinearizable(counterModel, operations).linearizable).toBe(true);
        operations[at] = {
          ...(operations[at] as Operation<CounterInput, CounterOutput>),
          output: { value: value + 1 },
        };
        const verdict = checkLinearizable(counterModel, operations);
        expect(verdict.linearizable).toBe(false);
      }),
      { numRuns: 20 },
    );
  });
});

describe('an operation', () => {
  it('survives being written down', () => {
    const known: Operation<CounterInput, CounterOutput> = {
      client: 'a',
      begin: 1.5,
      end: 2.25,
      input: { do: 'get' },
      output: { value: 1 },
    };
    const unknown = { ...known, end: Infinity, output: undefined };
    expect(decodeOperation(encodeOperation(known))).toEqual(known);
    expect(decodeOperation(encodeOperation(unknown))).toEqual(unknown);
  });
});
