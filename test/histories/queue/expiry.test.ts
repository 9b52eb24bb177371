/** What is looked for in histories of messages that expire: a right history, and one that is wrong for each thing. */
import { expect, it } from 'vitest';
import type { ClaimInput, ClaimOperation, ClaimOutput } from './claims.js';
import { CLOCK_MS, expiryComplaints } from './expiry.js';

const LIFE_MS = 10 * CLOCK_MS;
const EXPIRED = LIFE_MS + 10;
/** When something is looked at that lasts, and that nobody knows to have expired. */
const EARLY = LIFE_MS / 2;
const LATE = EXPIRED + CLOCK_MS;

class Told {
  readonly operations: ClaimOperation[] = [];

  add(begin: number, end: number, input: ClaimInput, output?: ClaimOutput): this {
    this.operations.push({ client: 'a', begin, end, input, output });
    return this;
  }

  push(end = EXPIRED - LIFE_MS): this {
    const output = end === Infinity ? undefined : ({ pushed: true } as const);
    return this.add(0, end, { do: 'push', ids: ['1'], expiresInMs: LIFE_MS }, output);
  }

  claim(begin: number): this {
    const items = [{ id: '1', deliveries: 1, claimId: `at ${begin}` }];
    return this.add(begin, LATE + 10, { do: 'claim', lease: 'a' }, { items });
  }

  ack(begin: number): this {
    return this.add(begin, begin + 1, { do: 'ack', lease: 'a', id: '1', claimId: 'x' }, { result: 'done' });
  }

  peek(begin: number, ...states: string[]): this {
    return this.add(begin, begin + 1, { do: 'peek' }, { shown: states.map((state) => ({ id: '1', state })) });
  }

  complaints(): string[] {
    return expiryComplaints(this.operations, { touchLagMs: 0 });
  }
}

const told = (): Told => new Told();

it('is acknowledged by whoever claimed it in time, or by nobody', () => {
  expect(
    told()
      .push()
      .peek(EARLY, 'available')
      .claim(LATE - 1)
      .ack(LATE + 11)
      .complaints(),
  ).toEqual([]);
  expect(
    told()
      .push()
      .peek(EARLY, 'claimed')
      .peek(LATE, 'expired')
      .peek(LATE + 5)
      .complaints(),
  ).toEqual([]);
});

it('is not lost before its time', () => {
  expect(
    told()
      .push()
      .add(EARLY, EARLY + 1, { do: 'claim', lease: 'a' }, { items: [] })
      .complaints(),
  ).toEqual(['1 is lost: it was pushed and never acknowledged']);
  const gone = [expect.stringContaining('1 was not shown at')];
  expect(told().push().peek(EARLY).peek(LATE).complaints()).toEqual(gone);
  expect(
    told()
      .push()
      .ack(EARLY - 1)
      .peek(EARLY)
      .peek(LATE)
      .complaints(),
  ).toEqual([]);
  // Nobody was told that it was pushed.
  expect(told().push(Infinity).peek(EARLY).peek(LATE).complaints()).toEqual([]);
  expect(told().push().peek(EARLY, 'expired').peek(LATE).complaints()).toEqual([
    expect.stringContaining('1 was expired at'),
  ]);
});

it('is not given to anybody who asks after its time', () => {
  const late = (): Told =>
    told()
      .push()
      .claim(LATE + 1)
      .ack(LATE + 20);
  expect(late().complaints()).toEqual([expect.stringContaining('and was given 1, which expired at')]);
  expect(
    told()
      .push(Infinity)
      .claim(LATE + 1)
      .ack(LATE + 20)
      .complaints(),
  ).toEqual([]);
});
