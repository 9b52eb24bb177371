/**
 * What nobody knows of a queue can be told from what came out of it in the end, when it was emptied: which keeps the
 * search small, because an operation that may have happened at any time, or never, multiplies it.
 *
 * - A push that nobody was told of happened, before its message came out; or, if that never came, can be taken as one
 *   that never happened.
 * - A message that was pushed and never came out was taken by a pop that nobody was told of. Which one took which has
 *   to be tried.
 */
import type { Operation } from '../linearizable.js';
import type { QueueInput, QueueOutput } from '../models.js';

type QueueOperation = Operation<QueueInput, QueueOutput>;

/**
 * @returns histories of which the given one is right if any of them is; none when more is missing than pops are unknown
 */
export function* settleQueue(operations: readonly QueueOperation[]): Generator<QueueOperation[]> {
  const cameOut = new Map<string, QueueOperation>();
  for (const operation of operations) {
    const { output } = operation;
    if (output !== undefined && 'popped' in output && output.popped !== null) cameOut.set(output.popped, operation);
  }
  const known: QueueOperation[] = [];
  const unknownPops: QueueOperation[] = [];
  const missing: string[] = [];
  for (const operation of operations) {
    const { input, output } = operation;
    if (input.do === 'pop') {
      (output === undefined ? unknownPops : known).push(operation);
      continue;
    }
    const popped = cameOut.get(input.id);
    if (output !== undefined) known.push(operation);
    else if (popped !== undefined) known.push({ ...operation, end: popped.end, output: { pushed: true } });
    if (output !== undefined && popped === undefined) missing.push(input.id);
  }
  const end = Math.max(...operations.map((one) => (one.end === Infinity ? one.begin : one.end)));
  for (const takers of choices(unknownPops, missing.length)) {
    const taken = takers.map((pop, i): QueueOperation => ({ ...pop, end, output: { popped: missing[i] as string } }));
    yield [...known, ...taken].sort((a, b) => a.begin - b.begin);
  }
}

/** All ways to choose so many of these, in every order; as they stand first. */
function* choices<T>(items: readonly T[], count: number): Generator<T[]> {
  if (count === 0) {
    yield [];
    return;
  }
  for (const [i, item] of items.entries())
    for (const rest of choices(items.toSpliced(i, 1), count - 1)) yield [item, ...rest];
}
