/**
 * Lock, read-write lock, semaphore, election: holds that a lease has, and loses when it ends. Whoever holds does so as
 * one of a lease, which may ask several times under names of its own: `lease#3`.
 *
 * An output that is undefined means that nobody knows what came of it: then it does what it would do in that state.
 */
import type { Model } from './linearizable.js';

export type HoldInput =
  | {
      readonly do: 'acquire';
      readonly by: string;
      readonly reads?: boolean;
      readonly permits?: number;
      readonly waitMs?: number;
      /** With `reads`: makes what it holds alone a hold that it shares. Where it has none it is an acquire as any. */
      readonly downgrades?: true;
    }
  /**
   * `mayStand`: that it was done does not say that it held. Somebody of that name asked and was not told whether it
   * holds, so there may be a place in line to be left; or nobody knows what came of an earlier release of it, and of
   * two whose deletions were not answered nobody can say which one did it.
   */
  | { readonly do: 'release'; readonly by: string; readonly mayStand?: boolean }
  /** An acquire that nobody waited for any more takes back what it got, unless another one was told of it. */
  | { readonly do: 'giveBack'; readonly by: string }
  /** A lease ends, and with it all that it has. Without an output perhaps, and then only if it has something. */
  | { readonly do: 'end'; readonly by: string }
  /** Somebody holds with this token; `of` if it is known who was given it. */
  | { readonly do: 'see'; readonly token: number; readonly of?: string }
  /** Whether this is the token of a hold. */
  | { readonly do: 'check'; readonly token: number; readonly of?: string };

export type HoldOutput =
  /** `members`: of a pool, which ones. */
  | { readonly token: number; readonly members?: readonly string[] }
  | { readonly refused: true }
  /** It stands in line. */
  | { readonly kept: true }
  | { readonly done: boolean };

interface Held {
  readonly by: string;
  /** Undefined when nobody has seen it. */
  readonly token: number | undefined;
  /** Whether its client knows that it holds. */
  readonly told: boolean;
  readonly reads: boolean;
  readonly permits: number;
}

export interface Holds {
  readonly held: readonly Held[];
  /** The highest that was given to anybody, and to somebody who holds alone. */
  readonly lastToken: number;
  readonly lastAlone: number;
  /** Leases that can get nothing any more. */
  readonly ended: readonly string[];
}

/** `lease#3` is of `lease`. */
export function leaseOf(by: string): string {
  return by.split('#')[0] as string;
}

/**
 * A lock: nobody holds beside a holder, and its token is higher than all before it. Readers share, and so do the
 * permits of a semaphore: their tokens tell the order of arrival, and only those who exclude each other are granted in
 * it.
 * @param limit permits that there are
 */
export function holdsModel(limit = 1): Model<Holds, HoldInput, HoldOutput> {
  return {
    initial: { held: [], lastToken: -1, lastAlone: -1, ended: [] },
    step: (state, input, output) => step(limit, state, input, output),
    mayHelp,
    key,
  };
}

const room = (limit: number, { held }: Holds, reads: boolean, permits: number): boolean =>
  (reads && held.every((one) => one.reads)) || held.reduce((sum, one) => sum + one.permits, permits) <= limit;
const rises = (limit: number, { lastToken, lastAlone }: Holds, token: number, reads: boolean): boolean =>
  limit > 1 || token > (reads ? lastAlone : lastToken);
const given = (limit: number, state: Holds, hold: Held): Holds => ({
  ...state,
  held: [...state.held.filter(({ by }) => by !== hold.by), hold],
  lastToken: Math.max(state.lastToken, hold.token ?? -1),
  lastAlone: hold.reads || limit > 1 ? state.lastAlone : Math.max(state.lastAlone, hold.token ?? -1),
});
const without = (state: Holds, goes: (by: string) => boolean): Holds => ({
  ...state,
  held: state.held.filter(({ by }) => !goes(by)),
});
function acquire(
  limit: number,
  state: Holds,
  { by, reads = false, permits = 1, downgrades }: HoldInput & { do: 'acquire' },
  output: HoldOutput | undefined,
): Holds | undefined {
  const own = state.held.find((one) => one.by === by);
  const token = output !== undefined && 'token' in output ? output.token : undefined;
  if (output !== undefined && token === undefined) {
    return own === undefined ? state : undefined;
  }
  if (state.ended.includes(leaseOf(by))) return token === undefined ? state : undefined;
  if (own !== undefined) {
    const after = downgrades === true ? { ...own, reads: true } : own;
    if (token === undefined) return given(limit, state, after);
    // Told late what an earlier request had got.
    if (own.token === token) return given(limit, state, { ...after, told: true });
    if (own.token !== undefined || !rises(limit, state, token, own.reads)) return undefined;
    return given(limit, state, { ...after, token, told: true });
  }
  if (!room(limit, state, reads, permits)) return token === undefined ? state : undefined;
  if (token !== undefined && !rises(limit, state, token, reads)) return undefined;
  return given(limit, state, { by, token, told: token !== undefined, reads, permits });
}

/** It may be the token of a hold that nobody was told of. */
function see(limit: number, state: Holds, token: number, of: string | undefined): Holds | undefined {
  if (state.held.some((one) => one.token === token)) return state;
  const unseen = state.held.filter(
    (one) => one.token === undefined && (of === undefined || one.by === of) && rises(limit, state, token, one.reads),
  );
  const [hold] = unseen;
  if (hold === undefined) return undefined;
  return unseen.length > 1 ? state : given(limit, state, { ...hold, token });
}

function step(limit: number, state: Holds, input: HoldInput, output: HoldOutput | undefined): Holds | undefined {
  switch (input.do) {
    case 'acquire':
      return acquire(limit, state, input, output);
    case 'release': {
      const holds = state.held.some((one) => one.by === input.by);
      if (output !== undefined && 'done' in output && output.done !== holds) {
        // To leave the line is a release too.
        if (holds || input.mayStand !== true) return undefined;
      }
      return without(state, (by) => by === input.by);
    }
    case 'giveBack':
      return state.held.some(({ by, told }) => by === input.by && told)
        ? state
        : without(state, (by) => by === input.by);
    case 'end': {
      if (output === undefined && !state.held.some(({ by }) => leaseOf(by) === input.by)) return state;
      const after = without(state, (by) => leaseOf(by) === input.by);
      return { ...after, ended: [...state.ended.filter((one) => one !== input.by), input.by].sort() };
    }
    case 'check': {
      if (output === undefined || !('done' in output)) return state;
      const current = state.held.some(({ token }) => token === input.token);
      const unseen = state.held.some(({ token }) => token === undefined);
      return output.done === current || (output.done && unseen) ? state : undefined;
    }
    case 'see':
      return see(limit, state, input.token, input.of);
  }
}

/** To hold helps nobody but who sees that; to share what was held alone helps others. */
const mayHelp: NonNullable<Model<Holds, HoldInput, HoldOutput>['mayHelp']> = (input, wanted) =>
  input.do !== 'acquire' ||
  input.downgrades === true ||
  wanted.some(
    ({ input: { do: does, ...rest }, output }) =>
      (does === 'see' || (does === 'check' && output !== undefined && 'done' in output && output.done)) &&
      'token' in rest &&
      (rest.of === undefined || rest.of === input.by),
  );

const key = ({ held, lastToken, lastAlone, ended }: Holds): string => {
  const sorted = [...held].sort((a, b) => (a.by < b.by ? -1 : 1));
  return JSON.stringify([
    sorted.map(({ by, token, told, reads, permits }) => [by, token, told, reads, permits]),
    lastToken,
    lastAlone,
    ended,
  ]);
};
