/**
 * Whether a history of a double barrier keeps its promises. Two things happen in each request, it comes and it is let
 * in, so no single moment is looked for, as in the other histories: each visit is taken apart into when it may have
 * been there and when it was for certain.
 *
 *             enter is sent   answered (202 or 200)          leave is sent   answered: all have left
 *   may have     ├────────────────────────────────────────────────────────────────────┤
 *   for certain                  ├──────────────────────────────────┤
 *
 * - Nobody is let in before `size` members may have been there at one moment since it came.
 * - No more than `size` who were let in are there for certain.
 * - Nobody is told that all of its round have left while, of those who may have been in it, too many are there for
 *   certain.
 * - A place stays the same one while its member is there.
 */
import type { LeaseInput, LeaseOutput } from './client-lease.js';
import type { Operation } from './linearizable.js';
import { isLeaseInput, LeaseLife } from './lives.js';

/** The member is the lease's own. */
export type VisitInput = { readonly do: 'enter' | 'leave'; readonly by: string };
/** `token` is that of its place. */
export type VisitOutput = { readonly in: boolean; readonly token: number } | { readonly out: boolean };

type AnyOperation = Operation<VisitInput | LeaseInput, VisitOutput | LeaseOutput>;
type VisitOperation = Operation<VisitInput, VisitOutput>;

class Visit {
  /** Its place was there by then. */
  thereBy = Infinity;
  /** It had been told by then that all are in. */
  inBy = Infinity;
  /** It may have left since then. */
  leaving = Infinity;
  /** It was told then that all have left. */
  out = Infinity;
  token: number | undefined;
  /** A request of it to enter may come at any time. */
  mayComeBack = false;

  constructor(
    readonly by: string,
    readonly begin: number,
    private readonly life: LeaseLife | undefined,
    /** An earlier request to leave may come at any time. */
    private readonly mayBeTaken: boolean,
  ) {}

  mayBeThere(at: number): boolean {
    const end = this.life?.ends.end ?? Infinity;
    return this.begin <= at && at <= (this.mayComeBack ? end : Math.min(this.out, end));
  }

  mayMeet(from: number, to: number): boolean {
    return this.begin <= to && this.mayBeThere(Math.max(from, this.begin));
  }

  isThere(at: number): boolean {
    if (this.mayBeTaken || this.life === undefined) return false;
    return this.thereBy <= at && at < this.leaving && at < this.life.believedFrom(this.thereBy);
  }

  isIn(at: number): boolean {
    return this.inBy <= at && this.isThere(at);
  }
}

export function visitComplaints(operations: readonly AnyOperation[], size: number): string[] {
  const lives = LeaseLife.of(operations);
  const own = operations.filter((one): one is VisitOperation => !isLeaseInput(one.input));
  const members = new Set(own.map(({ input }) => input.by));
  const found: string[] = [];
  const visits = [...members].flatMap((by) => {
    return visitsOf(
      by,
      own.filter(({ input }) => input.by === by),
      lives.get(by),
      found,
    );
  });
  for (const visit of visits) {
    const others = visits.filter(({ by }) => by !== visit.by);
    found.push(
      ...letInTooEarly(visit, others, size),
      ...toldTooEarly(visit, others, size),
      ...tooMany(visit, others, size),
    );
  }
  return found;
}

/** One after the other, as its client does them. */
function visitsOf(
  by: string,
  operations: readonly VisitOperation[],
  life: LeaseLife | undefined,
  found: string[],
): Visit[] {
  const visits: Visit[] = [];
  let visit: Visit | undefined;
  let mayBeTaken = false;
  for (const { input, output, begin, end } of operations.toSorted((a, b) => a.begin - b.begin)) {
    if (input.do === 'enter') {
      if (visit === undefined) visits.push((visit = new Visit(by, begin, life, mayBeTaken)));
      if (output === undefined) visit.mayComeBack = true;
      else if ('token' in output) {
        visit.thereBy = Math.min(visit.thereBy, end);
        if (output.in) visit.inBy = Math.min(visit.inBy, end);
        if (visit.token !== undefined && visit.token !== output.token && !mayBeTaken)
          found.push(`${by} has the place ${output.token} at ${end} and had ${visit.token}, which it did not leave`);
        visit.token = output.token;
      }
    } else if (visit !== undefined) {
      visit.leaving = Math.min(visit.leaving, begin);
      if (output === undefined) mayBeTaken = true;
      else if ('out' in output && output.out) {
        visit.out = end;
        visit = undefined;
      }
    }
  }
  return visits;
}

function letInTooEarly(visit: Visit, others: readonly Visit[], size: number): string[] {
  if (visit.inBy === Infinity) return [];
  const moments = [visit.begin, ...others.map(({ begin }) => begin)].filter(
    (at) => at >= visit.begin && at <= visit.inBy,
  );
  const most = Math.max(...moments.map((at) => membersOf(others.filter((other) => other.mayBeThere(at)))));
  if (most + 1 >= size) return [];
  return [`${visit.by} was let in by ${visit.inBy}, with ${most} others at most since ${visit.begin}`];
}

/** Those who were in its round are among those who may have been there when it was let in. */
function toldTooEarly(visit: Visit, others: readonly Visit[], size: number): string[] {
  if (visit.inBy === Infinity || visit.out === Infinity) return [];
  const round = others.filter((other) => other.mayMeet(visit.begin, visit.inBy));
  const mayHaveLeft = membersOf(round.filter((other) => !other.isThere(visit.out)));
  if (mayHaveLeft + 1 >= size) return [];
  const there = round.filter((other) => other.isThere(visit.out)).map(({ by }) => by);
  return [`${visit.by} was told at ${visit.out} that all have left, though ${there.join(' and ')} had not`];
}

function tooMany(visit: Visit, others: readonly Visit[], size: number): string[] {
  if (visit.inBy === Infinity || !visit.isIn(visit.inBy)) return [];
  const inside = others.filter((other) => other.isIn(visit.inBy)).map(({ by }) => by);
  return inside.length < size
    ? []
    : [`${[visit.by, ...inside].join(', ')} were in at ${visit.inBy}, more than ${size}`];
}

function membersOf(visits: readonly Visit[]): number {
  return new Set(visits.map(({ by }) => by)).size;
}
