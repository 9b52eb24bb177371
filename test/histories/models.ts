/**
 * What the recipes are that need no line (see `holds-model.ts` for those that do), each as one object that does one
 * thing at a time: what `checkLinearizable` holds histories against.
 *
 * An output that is undefined means that nobody knows what came of it: then it does what it would do in that state.
 */
import type { Model } from './linearizable.js';

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
  | { readonly do: 'delete' }
  | { readonly do: 'get' };
export type CounterOutput = { readonly value: number } | { readonly mismatch: true } | { readonly deleted: boolean };

/** Null: there is none. It is read as 0, but cannot be deleted. */
export const counterModel: Model<number | null, CounterInput, CounterOutput> = {
  initial: null,
  step(state, input, output) {
    const value = state ?? 0;
    const tells = (is: number): boolean => output === undefined || ('value' in output && output.value === is);
    const is = (next: number): number | undefined => (tells(next) ? next : undefined);
    if (input.do === 'add') return is(value + input.by);
    if (input.do === 'get') return tells(value) ? state : undefined;
    if (input.do === 'delete')
      return output === undefined || ('deleted' in output && output.deleted === (state !== null)) ? null : undefined;
    const matches = input.expected === undefined || input.expected === value;
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

// A name in a group: of one lease at a time, with the value that it shows.

export type GroupInput =
  | { readonly do: 'join'; readonly member: string; readonly by: string; readonly value: string }
  | { readonly do: 'leave'; readonly member: string; readonly by: string }
  | { readonly do: 'look'; readonly member: string }
  /** A lease ends. */
  | { readonly do: 'end'; readonly by: string };
export type GroupOutput =
  | { readonly done: true }
  /** Another lease has the name. */
  | { readonly refused: true }
  | { readonly value: string | null };

export interface Member {
  readonly by: string | null;
  readonly value: string | null;
  readonly ended: readonly string[];
}

export const groupModel: Model<Member, GroupInput, GroupOutput> = {
  initial: { by: null, value: null, ended: [] },
  step(state, input, output) {
    const nobody = { ...state, by: null, value: null };
    const refused = output !== undefined && 'refused' in output;
    if (input.do === 'look')
      return output !== undefined && 'value' in output && output.value !== state.value ? undefined : state;
    const others = state.by !== null && state.by !== input.by;
    switch (input.do) {
      case 'join': {
        if (state.ended.includes(input.by)) return output === undefined || refused ? state : undefined;
        if (others || refused) return others && (output === undefined || refused) ? state : undefined;
        return { ...state, by: input.by, value: input.value };
      }
      case 'leave':
        if (others || refused) return others && (output === undefined || refused) ? state : undefined;
        return nobody;
      case 'end':
        return {
          ...(state.by === input.by ? nobody : state),
          ended: [...state.ended.filter((one) => one !== input.by), input.by].sort(),
        };
    }
  },
  key: ({ by, value, ended }) => JSON.stringify([by, value, ended]),
};

// Two-phase commit: one decision, the same for everybody, and `commit` only when all have voted for it and no lease of
// theirs has ended.

export type TransactionInput =
  | { readonly do: 'vote'; readonly participant: string; readonly vote: 'commit' | 'abort'; readonly by: string }
  | { readonly do: 'abort' }
  | { readonly do: 'look' }
  /** A lease ends. */
  | { readonly do: 'end'; readonly by: string };
export type TransactionOutput =
  | { readonly state: 'open' | 'committed' | 'aborted' }
  /** Another lease is this participant, or has voted otherwise. */
  | { readonly refused: true };

export interface TransactionState {
  /** By participant: the lease that voted to commit. */
  readonly votes: Readonly<Record<string, string>>;
  /** A lease that had voted has ended: nobody can commit any more. */
  readonly lost: boolean;
  readonly decision: 'open' | 'committed' | 'aborted';
}

export function transactionModel(participants: number): Model<TransactionState, TransactionInput, TransactionOutput> {
  return {
    initial: { votes: {}, lost: false, decision: 'open' },
    step(state, input, output) {
      let { votes, lost, decision } = state;
      if (input.do === 'end') {
        if (decision === 'open' && Object.values(votes).includes(input.by)) lost = true;
        return { votes, lost, decision };
      }
      if (output !== undefined && 'refused' in output) return state;
      if (decision === 'open' && input.do === 'vote') {
        const voted = votes[input.participant];
        if (voted !== undefined && voted !== input.by)
          return output?.state === 'aborted'
            ? { votes, lost, decision: 'aborted' }
            : output === undefined
              ? state
              : undefined;
        if (input.vote === 'abort') decision = 'aborted';
        else votes = { ...votes, [input.participant]: input.by };
      }
      if (decision === 'open' && input.do === 'abort') decision = 'aborted';
      // Whoever finds that all have voted decides; that can be told before it is done.
      const all = Object.keys(votes).length === participants;
      if (decision === 'open' && all && !lost && output?.state === 'committed') decision = 'committed';
      // A participant that was lost, or the deadline, aborts whatever is open.
      if (decision === 'open' && output?.state === 'aborted') decision = 'aborted';
      return output === undefined || output.state === decision ? { votes, lost, decision } : undefined;
    },
    key: ({ votes, lost, decision }) => JSON.stringify([decision, lost, Object.entries(votes).sort()]),
  };
}
