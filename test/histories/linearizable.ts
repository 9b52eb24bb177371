/**
 * Whether a history of operations could have happened one after the other, each at a point between its begin and its
 * end: the search of Wing and Gong with Lowe's memory ("Testing for linearizability", 2017), on the linked list of
 * calls and returns that Horn and Kroening describe.
 *
 * An operation whose outcome nobody knows has no end: it may have happened at any time after its begin, or never. The
 * search is over when all that have an end are placed.
 *
 * Histories of different objects are checked apart (linearizability is local), so a search stays small.
 */
import { inspect } from 'node:util';

export interface Operation<I, O> {
  /** Who did it: one after the other, for the report only. */
  readonly client: string;
  /** On one monotonic clock for all, in ms. */
  readonly begin: number;
  /** Infinity: nobody knows whether it happened. */
  readonly end: number;
  readonly input: I;
  /** Undefined when nobody knows. */
  readonly output: O | undefined;
}

/** What the object does. States are values: `step` changes none. */
export interface Model<S, I, O> {
  readonly initial: S;
  /**
   * @returns the state after it, or undefined when it cannot give this output in this state; any output is right where
   *   it is undefined
   */
  step(state: S, input: I, output: O | undefined): S | undefined;
  /** The same text for the same state, and for no other. */
  key(state: S): string;
  /**
   * Whether an operation that nobody knows of can make one of these possible, of which none is possible as it is.
   * Without it any can.
   * @param wanted operations that have an end, one of which has to come next
   */
  mayHelp?(input: I, wanted: readonly Operation<I, O>[]): boolean;
}

export type Verdict<I, O> =
  | { readonly linearizable: true; readonly steps: number }
  /** It is neither shown that it could have happened nor that it could not. */
  | { readonly linearizable: undefined; readonly steps: number; readonly operations: number }
  | {
      readonly linearizable: false;
      readonly steps: number;
      /** The longest order that was found, and the operations of which none can come next. */
      readonly placed: readonly Operation<I, O>[];
      readonly stuck: readonly Operation<I, O>[];
    };

/** A search that takes more is given up: some seconds, and some hundred MiB of memory. */
const STEPS_MAX = 1_000_000;

interface Entry<I, O> {
  readonly operation: Operation<I, O>;
  /** Among those that have an end, and among those that have none. */
  readonly index: number;
  /** Undefined in a return. */
  readonly returned?: Entry<I, O> | undefined;
  readonly isCall: boolean;
  previous: Entry<I, O> | undefined;
  next: Entry<I, O> | undefined;
}

/**
 * What has an end is tried first. An operation without one need not be placed at all, so it is tried where nothing else
 * can come next, and only where it changes something: of what nobody knows, as little as possible is taken to have
 * happened.
 */
export function checkLinearizable<S, I, O>(
  model: Model<S, I, O>,
  operations: readonly Operation<I, O>[],
  stepsMax = STEPS_MAX,
): Verdict<I, O> {
  const head = link(operations);
  const placed = { closed: new Placed(), open: new Placed() };
  const placedOf = (entry: Entry<I, O>): Placed => (entry.returned === undefined ? placed.open : placed.closed);
  const seen = new Set<string>();
  const path: { entry: Entry<I, O>; before: S; key: string }[] = [];
  let missing = operations.filter(({ end }) => end !== Infinity).length;
  let state = model.initial;
  let key = model.key(state);
  let entry = head.next;
  let open = false;
  let steps = 0;
  let best: { path: readonly Entry<I, O>[]; stuck: readonly Operation<I, O>[] } = { path: [], stuck: [] };
  while (missing > 0) {
    if ((steps += 1) > stepsMax) return { linearizable: undefined, steps, operations: operations.length };
    if (entry?.isCall === true) {
      if ((entry.returned === undefined) === open) {
        const { input, output } = entry.operation;
        const helps = !open || (model.mayHelp?.(input, closedCalls(head)) ?? true);
        const after = helps ? model.step(state, input, output) : undefined;
        const keyAfter = after === undefined ? key : model.key(after);
        if (after !== undefined && !(open && keyAfter === key)) {
          placedOf(entry).add(entry.index);
          const memory = `${placed.closed.key()}|${placed.open.key()}|${keyAfter}`;
          if (!seen.has(memory)) {
            seen.add(memory);
            path.push({ entry, before: state, key });
            [state, key] = [after, keyAfter];
            if (entry.returned !== undefined) missing -= 1;
            lift(entry);
            [entry, open] = [head.next, false];
            continue;
          }
          placedOf(entry).delete(entry.index);
        }
      }
      entry = entry.next;
      continue;
    }
    if (!open) {
      if (path.length >= best.path.length) best = { path: path.map((one) => one.entry), stuck: openCalls(head, entry) };
      [entry, open] = [head.next, true];
      continue;
    }
    // A return, or the end, of which everything before was tried: the last choice was wrong.
    const last = path.pop();
    if (last === undefined)
      return { linearizable: false, steps, placed: best.path.map(({ operation }) => operation), stuck: best.stuck };
    [state, key] = [last.before, last.key];
    placedOf(last.entry).delete(last.entry.index);
    if (last.entry.returned !== undefined) missing += 1;
    unlift(last.entry);
    [entry, open] = [last.entry.next, last.entry.returned === undefined];
  }
  return { linearizable: true, steps };
}

/** How a complaint begins that is none: see {@link Verdict}. */
export const UNDECIDED = 'undecided';

/** A verdict in words, for a test that fails. */
export function explain<I, O>(verdict: Verdict<I, O>): string {
  if (verdict.linearizable === true) return `linearizable (${verdict.steps} steps)`;
  if (verdict.linearizable === undefined)
    return `${UNDECIDED} after ${verdict.steps} steps: ${verdict.operations} operations`;
  const line = ({ client, begin, end, input, output }: Operation<I, O>): string =>
    `  ${client} [${begin.toFixed(1)}, ${end.toFixed(1)}] ${show(input)} → ${output === undefined ? '?' : show(output)}`;
  return [
    `not linearizable: after ${verdict.placed.length} operations, the last of them`,
    ...verdict.placed.slice(-10).map(line),
    'none of these can come next:',
    ...verdict.stuck.map(line),
  ].join('\n');
}

function show(value: unknown): string {
  return inspect(value, { breakLength: Infinity, depth: 3 });
}

/** Calls and returns in the order of their times; at the same time calls come first, so such operations overlap. */
function link<I, O>(operations: readonly Operation<I, O>[]): Entry<I, O> {
  const entries: { time: number; entry: Entry<I, O> }[] = [];
  const counts = { open: 0, closed: 0 };
  for (const operation of operations) {
    const index = operation.end === Infinity ? counts.open++ : counts.closed++;
    const nowhere = { previous: undefined, next: undefined };
    const returned: Entry<I, O> | undefined =
      operation.end === Infinity ? undefined : { operation, index, isCall: false, ...nowhere };
    entries.push({ time: operation.begin, entry: { operation, index, isCall: true, returned, ...nowhere } });
    if (returned !== undefined) entries.push({ time: operation.end, entry: returned });
  }
  entries.sort((a, b) => a.time - b.time || Number(b.entry.isCall) - Number(a.entry.isCall));
  const head = { isCall: false, index: -1, previous: undefined, next: undefined } as unknown as Entry<I, O>;
  let last = head;
  for (const { entry } of entries) {
    last.next = entry;
    entry.previous = last;
    last = entry;
  }
  return head;
}

function lift<I, O>(call: Entry<I, O>): void {
  remove(call);
  if (call.returned !== undefined) remove(call.returned);
}

/** In the reverse order of `lift`. */
function unlift<I, O>(call: Entry<I, O>): void {
  if (call.returned !== undefined) insert(call.returned);
  insert(call);
}

function remove<I, O>(entry: Entry<I, O>): void {
  if (entry.previous !== undefined) entry.previous.next = entry.next;
  if (entry.next !== undefined) entry.next.previous = entry.previous;
}

function insert<I, O>(entry: Entry<I, O>): void {
  if (entry.previous !== undefined) entry.previous.next = entry;
  if (entry.next !== undefined) entry.next.previous = entry;
}

function openCalls<I, O>(head: Entry<I, O>, until: Entry<I, O> | undefined): Operation<I, O>[] {
  const calls: Operation<I, O>[] = [];
  for (let entry = head.next; entry !== undefined && entry !== until; entry = entry.next)
    if (entry.isCall) calls.push(entry.operation);
  return calls;
}

/** What has an end and may come next: all that began before the first of them ended. */
function closedCalls<I, O>(head: Entry<I, O>): Operation<I, O>[] {
  const calls: Operation<I, O>[] = [];
  for (let entry = head.next; entry?.isCall === true; entry = entry.next)
    if (entry.returned !== undefined) calls.push(entry.operation);
  return calls;
}

/** Which operations are placed, with a key that stays short: all up to some index, and a few beyond. */
class Placed {
  readonly #beyond = new Set<number>();
  /** All below are placed. */
  #below = 0;

  add(index: number): void {
    this.#beyond.add(index);
    while (this.#beyond.delete(this.#below)) this.#below += 1;
  }

  delete(index: number): void {
    if (index >= this.#below) {
      this.#beyond.delete(index);
      return;
    }
    for (let i = index + 1; i < this.#below; i += 1) this.#beyond.add(i);
    this.#below = index;
  }

  key(): string {
    return `${this.#below}:${[...this.#beyond].sort((a, b) => a - b).join(',')}`;
  }
}
