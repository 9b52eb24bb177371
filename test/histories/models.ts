/**
 * What the recipes are, each as one object that does one thing at a time: what `checkLinearizable` holds histories against.
 *
 * An output that is undefined means that nobody knows what came of it: then it does what it would do in that state.
 */
import type { Model } from './linearizable.js';

// Lock, read-write lock, semaphore, election: holds that a lease has, and loses when it ends.

export type HoldInput =
  | { readonly do: 'acquire'; readonly by: string; readonly reads?: boolean; readonly permits?: number }
  | { readonly do: 'release'; readonly by: string }
  /** The lease ends, at some time between its last heartbeat and when somebody was told. */
  | { readonly do: 'end'; readonly by: string }
  | { readonly do: 'show' }
  /** Whether this is the token of a hold. */
  | { readonly do: 'check'; readonly token: number };

export type HoldOutput =
  | { readonly token: number }
  | { readonly refused: true }
  | { readonly done: boolean }
  /** The tokens of all that hold. */
  | { readonly tokens: readonly number[] };

interface Held {
  readonly by: string;
  /** Undefined when nobody was told. */
  readonly token: number | undefined;
  readonly reads: boolean;
  readonly permits: number;
}

export interface Holds {
  readonly held: readonly Held[];
  /** The highest that was given to anybody, and to somebody who holds alone. */
  readonly lastToken: number;
  readonly lastAlone: number;
  /** Whose request was cut off while it waited: it is in line and holds nothing, until it comes back, leaves or is passed by. */
  readonly inLine: readonly string[];
}

/**
 * A lock: nobody holds beside a holder, and its token is higher than all before it. Readers share, and so do the permits of a semaphore: their
 * tokens tell the order of arrival, and only those who exclude each other are granted in it.
 * @param limit permits that there are
 */
export function holdsModel(limit = 1): Model<Holds, HoldInput, HoldOutput> {
  const room = ({ held }: Holds, reads: boolean, permits: number): boolean =>
    (reads && held.every((one) => one.reads)) || held.reduce((sum, one) => sum + one.permits, permits) <= limit;
  const rises = ({ lastToken, lastAlone }: Holds, token: number, reads: boolean): boolean =>
    limit > 1 || token > (reads ? lastAlone : lastToken);
  const given = (state: Holds, hold: Held): Holds => ({
    held: [...state.held.filter(({ by }) => by !== hold.by), hold],
    lastToken: Math.max(state.lastToken, hold.token ?? -1),
    lastAlone: hold.reads || limit > 1 ? state.lastAlone : Math.max(state.lastAlone, hold.token ?? -1),
    inLine: state.inLine.filter((by) => by !== hold.by),
  });
  const without = (state: Holds, by: string): Holds => ({
    ...state,
    held: state.held.filter((one) => one.by !== by),
    inLine: state.inLine.filter((one) => one !== by),
  });
  return {
    initial: { held: [], lastToken: -1, lastAlone: -1, inLine: [] },
    step(state, input, output) {
      switch (input.do) {
        case 'acquire': {
          const { by, reads = false, permits = 1 } = input;
          const own = state.held.find((one) => one.by === by);
          if (output !== undefined && 'refused' in output) return own === undefined ? without(state, by) : undefined;
          const token = output !== undefined && 'token' in output ? output.token : undefined;
          if (own !== undefined) {
            // Told late what an earlier request had got.
            if (own.token === token || token === undefined) return state;
            if (own.token !== undefined || !rises(state, token, own.reads)) return undefined;
            return given(state, { ...own, token });
          }
          if (output === undefined && !room(state, reads, permits))
            return { ...state, inLine: [...state.inLine.filter((one) => one !== by), by].sort() };
          if (!room(state, reads, permits) || (token !== undefined && !rises(state, token, reads))) return undefined;
          return given(state, { by, token, reads, permits });
        }
        case 'release': {
          // To leave the line is a release too.
          const stands = state.held.some((one) => one.by === input.by) || state.inLine.includes(input.by);
          if (output !== undefined && 'done' in output && output.done !== stands) return undefined;
          return without(state, input.by);
        }
        case 'end':
          return without(state, input.by);
        case 'check':
          if (output !== undefined && 'done' in output) {
            const current = state.held.some(({ token }) => token === input.token);
            const unknown = state.held.some(({ token }) => token === undefined);
            if (output.done !== current && !unknown) return undefined;
          }
          return state;
        case 'show': {
          if (output === undefined || !('tokens' in output)) return state;
          const shown = new Set(output.tokens);
          const known = state.held.filter(({ token }) => token !== undefined);
          const fits = known.every(({ token }) => shown.has(token as number)) && shown.size === state.held.length;
          return fits ? state : undefined;
        }
      }
    },
    key: ({ held, lastToken, lastAlone, inLine }) => {
      const sorted = [...held].sort((a, b) => (a.by < b.by ? -1 : 1));
      return JSON.stringify([
        sorted.map(({ by, token, reads, permits }) => [by, token, reads, permits]),
        lastToken,
        lastAlone,
        inLine,
      ]);
    },
  };
}

// Configuration: a register with compare-and-set.

export type RegisterInput =
  | { readonly do: 'put'; readonly value: string; readonly ifMatch?: string; readonly ifNone?: boolean }
  | { readonly do: 'delete' }
  | { readonly do: 'get' };

export type RegisterOutput =
  | { readonly etag: string }
  | { readonly mismatch: true }
  | { readonly deleted: boolean }
  | { readonly value: string | null; readonly etag: string | null };

export interface Register {
  readonly value: string | null;
  /** Undefined: nobody was told. */
  readonly etag: string | null | undefined;
}

export const registerModel: Model<Register, RegisterInput, RegisterOutput> = {
  initial: { value: null, etag: null },
  step(state, input, output) {
    switch (input.do) {
      case 'put': {
        const matches =
          (input.ifNone !== true || state.value === null) &&
          (input.ifMatch === undefined || state.etag === input.ifMatch || state.etag === undefined);
        if (output === undefined) return matches ? { value: input.value, etag: undefined } : state;
        // An etag that nobody was told of may be any but those that were told.
        if ('mismatch' in output) return matches && state.etag !== undefined ? undefined : state;
        return 'etag' in output && matches ? { value: input.value, etag: output.etag } : undefined;
      }
      case 'delete':
        if (output !== undefined && 'deleted' in output && output.deleted !== (state.value !== null)) return undefined;
        return { value: null, etag: null };
      case 'get': {
        if (output === undefined || !('value' in output)) return state;
        if (output.value !== state.value) return undefined;
        if (state.etag !== undefined && output.etag !== state.etag) return undefined;
        return { value: state.value, etag: output.etag };
      }
    }
  },
  key: ({ value, etag }) => `${value ?? ''}\n${etag === undefined ? '?' : (etag ?? '')}`,
};

// Counter.

export type CounterInput =
  | { readonly do: 'add'; readonly by: number }
  | { readonly do: 'set'; readonly value: number; readonly expected?: number }
  | { readonly do: 'get' };
export type CounterOutput = { readonly value: number } | { readonly mismatch: true };

export const counterModel: Model<number, CounterInput, CounterOutput> = {
  initial: 0,
  step(state, input, output) {
    const is = (value: number): number | undefined =>
      output === undefined || ('value' in output && output.value === value) ? value : undefined;
    if (input.do === 'add') return is(state + input.by);
    if (input.do === 'get') return is(state);
    const matches = input.expected === undefined || input.expected === state;
    if (!matches) return output === undefined || 'mismatch' in output ? state : undefined;
    return is(input.value);
  },
  key: String,
};

// Queue: first in, first out, at most once.

export type QueueInput = { readonly do: 'push'; readonly id: string } | { readonly do: 'pop' };
export type QueueOutput = { readonly pushed: true } | { readonly popped: string | null };

export const queueModel: Model<readonly string[], QueueInput, QueueOutput> = {
  initial: [],
  step(state, input, output) {
    if (input.do === 'push') return [...state, input.id];
    const [first, ...rest] = state;
    if (output === undefined || !('popped' in output)) return rest;
    return output.popped === (first ?? null) ? rest : undefined;
  },
  key: (state) => state.join(','),
};

// Barrier.

export type BarrierInput = { readonly do: 'raise' } | { readonly do: 'lift' } | { readonly do: 'look' };
export type BarrierOutput = { readonly raised: boolean };

export const barrierModel: Model<boolean, BarrierInput, BarrierOutput> = {
  initial: false,
  step(state, input, output) {
    if (input.do !== 'look') return input.do === 'raise';
    return output === undefined || output.raised === state ? state : undefined;
  },
  key: String,
};

// Two-phase commit: one decision, the same for everybody, and `commit` only when all have voted for it.

export type TransactionInput =
  | { readonly do: 'vote'; readonly participant: string; readonly vote: 'commit' | 'abort' }
  | { readonly do: 'abort' }
  | { readonly do: 'look' };
export type TransactionOutput = { readonly state: 'open' | 'committed' | 'aborted' };

export interface TransactionState {
  readonly votes: readonly string[];
  readonly decision: 'open' | 'committed' | 'aborted';
}

export function transactionModel(participants: number): Model<TransactionState, TransactionInput, TransactionOutput> {
  return {
    initial: { votes: [], decision: 'open' },
    step(state, input, output) {
      let { votes, decision } = state;
      if (decision === 'open' && input.do === 'vote') {
        if (input.vote === 'abort') decision = 'aborted';
        else if (!votes.includes(input.participant)) votes = [...votes, input.participant].sort();
      }
      if (decision === 'open' && input.do === 'abort') decision = 'aborted';
      // Whoever finds that all have voted decides; that can be told before it is done.
      const all = votes.length === participants;
      if (decision === 'open' && all && output?.state === 'committed') decision = 'committed';
      // A participant that was lost, or the deadline, aborts whatever is open.
      if (decision === 'open' && output?.state === 'aborted') decision = 'aborted';
      return output === undefined || output.state === decision ? { votes, decision } : undefined;
    },
    key: ({ votes, decision }) => `${decision}:${votes.join(',')}`,
  };
}
