/**
 * Who waited in vain for what nobody held.
 *
 * A refused wait is compared with all others who can have held meanwhile: who was told of a grant, from a moment before
 * that on, and who asked and was told nothing, from then on; until a release was answered or the lease has ended. Where
 * none of them can have held for long, and nothing was disturbed, whoever stood in line should have been granted. A
 * lost member of a pool rests from when it is found, which may be at the very request that waits.
 */
import { leaseOf, type HoldInput, type HoldOutput } from './holds-model.js';
import type { Operation } from './linearizable.js';
import type { LeaseLife } from './lives.js';

type HoldOperation = Operation<HoldInput, HoldOutput>;

interface Span {
  readonly begin: number;
  readonly end: number;
}

/** So long nobody waits for what is free, on a busy machine. */
const IN_VAIN_MS = 3_000;
/** Between a grant and its answer, and between the request and its place in line. */
const UNDER_WAY_MS = 1_000;

export function waitedInVain(
  operations: readonly HoldOperation[],
  leases: ReadonlyMap<string, LeaseLife>,
  disturbed: readonly Span[],
  quarantineMs = 0,
): string[] {
  const byHold = new Map<string, HoldOperation[]>();
  for (const operation of operations)
    if ('by' in operation.input) byHold.set(operation.input.by, [...(byHold.get(operation.input.by) ?? []), operation]);
  const spans = [...byHold].flatMap(([by, ofOne]) => {
    const span = mayHold(ofOne, leases.get(leaseOf(by)));
    return span === undefined ? [] : [{ by, begin: span.begin, end: span.end + quarantineMs }];
  });
  return operations.flatMap(({ client, begin, end, input, output }) => {
    if (input.do !== 'acquire' || output === undefined || !('refused' in output)) return [];
    if ((input.waitMs ?? 0) < IN_VAIN_MS) return [];
    const others = spans.filter(({ by }) => by !== input.by);
    const gap = longestGap({ begin: begin + UNDER_WAY_MS + quarantineMs, end }, [...others, ...disturbed]);
    if (gap.end - gap.begin < IN_VAIN_MS) return [];
    return [
      `${client} waited as ${input.by} from ${begin.toFixed(1)} to ${end.toFixed(1)} and was refused, ` +
        `though nobody can have held from ${gap.begin.toFixed(1)} to ${gap.end.toFixed(1)}`,
    ];
  });
}

/** When one of them can have held; undefined when it never did. */
function mayHold(operations: readonly HoldOperation[], lease: LeaseLife | undefined): Span | undefined {
  const acquires = operations.filter(({ input }) => input.do === 'acquire').sort((a, b) => a.begin - b.begin);
  const unclear = acquires.filter(({ output }) => output === undefined || 'kept' in output);
  const granted = acquires.filter(({ output }) => output !== undefined && 'token' in output);
  const told = Math.min(...granted.map(({ end }) => end));
  const begin = Math.min(told - UNDER_WAY_MS, ...unclear.map((one) => one.begin));
  if (begin === Infinity) return undefined;
  const last = Math.max(...acquires.map((one) => one.begin));
  // What answers a request that was sent after all others concludes it.
  const concluded = operations.filter(
    (one) => one.output !== undefined && one.begin >= last && (one.input.do === 'release' || 'refused' in one.output),
  );
  return { begin, end: Math.min(lease?.goneBy ?? Infinity, ...concluded.map(({ end }) => end)) };
}

/** The longest part of `span` that none of these touches. */
function longestGap(span: Span, taken: readonly Span[]): Span {
  let longest: Span = { begin: span.begin, end: span.begin };
  let free = span.begin;
  for (const { begin, end } of [...taken, { begin: span.end, end: span.end }].sort((a, b) => a.begin - b.begin)) {
    if (Math.min(begin, span.end) - free > longest.end - longest.begin)
      longest = { begin: free, end: Math.min(begin, span.end) };
    free = Math.max(free, end);
  }
  return longest;
}
