/**
 * What the recipes are that need no line (see `holds-model.ts` for those that do), each as one object that does one thing at a time: what
 * `checkLinearizable` holds histories against.
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
