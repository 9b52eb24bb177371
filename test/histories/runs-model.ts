/**
 * One occurrence of a run: at most one attempt at a time, which belongs to a lease; after `done` none any more, and no
 * more than there may be. Whoever starts does so as one of a lease, which may ask several times under names of its own:
 * `lease#3`.
 *
 * An output that is undefined means that nobody knows what came of it: then it does what it would do in that state.
 */
import { leaseOf } from './holds-model.js';
import type { Model } from './linearizable.js';

export type RunOutcome = 'done' | 'failed';
export type RunState = 'running' | 'done' | 'failed' | 'open';

export type RunInput =
  | { readonly do: 'start'; readonly by: string }
  | { readonly do: 'finish'; readonly by: string; readonly token: number; readonly outcome: RunOutcome }
  | { readonly do: 'look' }
  /** A lease ends. Without an output perhaps, and then only if it has the attempt. */
  | { readonly do: 'end'; readonly by: string };

export type RunOutput =
  | { readonly started: true; readonly attempt: number; readonly token: number }
  | { readonly started: false; readonly attempt: number; readonly state: RunState }
  /** Of a finish, and of a look; a look that finds nothing has `null`. */
  | { readonly state: RunState | null; readonly attempt: number; readonly token?: number }
  /** It was not the attempt of whoever said that it has ended. */
  | { readonly refused: true; readonly detail?: string }
  | { readonly done: true };

export interface RunOccurrence {
  readonly attempt: number;
  /** Undefined when nobody was told. */
  readonly token: number | undefined;
  /** Of all that were told. */
  readonly lastToken: number;
  readonly by: string | null;
  readonly outcome: RunOutcome | null;
  /** The tokens of earlier attempts that were finished as failed. */
  readonly failed: readonly number[];
  /** Leases that can start nothing any more. */
  readonly ended: readonly string[];
}

export function runModel(maxAttempts: number): Model<RunOccurrence, RunInput, RunOutput> {
  const stateOf = ({ attempt, by, outcome, ended }: RunOccurrence): RunState => {
    if (outcome === 'done') return 'done';
    if (by !== null && outcome === null && !ended.includes(leaseOf(by))) return 'running';
    return attempt < maxAttempts ? 'open' : 'failed';
  };
  const tells = (state: RunOccurrence, output: RunOutput | undefined): boolean =>
    output === undefined ||
    ('state' in output &&
      output.state === stateOf(state) &&
      output.attempt === state.attempt &&
      !('started' in output));
  return {
    initial: { attempt: 0, token: undefined, lastToken: -1, by: null, outcome: null, failed: [], ended: [] },
    step(state, input, output) {
      switch (input.do) {
        case 'start':
          return start(state, stateOf(state), input.by, output);
        case 'finish':
          return finish(state, input, output, tells);
        case 'look':
          if (state.attempt === 0)
            return output === undefined || ('state' in output && output.state === null) ? state : undefined;
          return tells(state, output) ? seen(state, output) : undefined;
        case 'end': {
          const isHolder = state.by !== null && leaseOf(state.by) === input.by && state.outcome === null;
          if (output === undefined && !isHolder) return state;
          return { ...state, ended: [...state.ended.filter((one) => one !== input.by), input.by].sort() };
        }
      }
    },
    key: (state) => JSON.stringify(state),
  };
}

function start(
  state: RunOccurrence,
  now: RunState,
  by: string,
  output: RunOutput | undefined,
): RunOccurrence | undefined {
  if (output !== undefined && !('started' in output)) return undefined;
  const isOwn = state.by === by && now === 'running';
  if (isOwn) {
    if (output === undefined) return state;
    return output.started && output.attempt === state.attempt ? seen(state, output) : undefined;
  }
  if (output?.started === false)
    return output.state === now && output.attempt === state.attempt && now !== 'open' ? state : undefined;
  if (now !== 'open' || state.ended.includes(leaseOf(by))) return output === undefined ? state : undefined;
  const attempt = state.attempt + 1;
  if (output !== undefined && (output.attempt !== attempt || output.token <= state.lastToken)) return undefined;
  const failed =
    state.outcome === 'failed' && state.token !== undefined ? [...state.failed, state.token] : state.failed;
  const token = output?.token;
  return { ...state, attempt, token, lastToken: token ?? state.lastToken, by, outcome: null, failed };
}

/** Nobody may have been told of the token that is shown. */
function seen(state: RunOccurrence, output: RunOutput | undefined): RunOccurrence | undefined {
  if (output === undefined || !('token' in output) || output.token === undefined) return state;
  const { token } = output;
  if (state.token !== undefined) return token === state.token ? state : undefined;
  return token > state.lastToken ? { ...state, token, lastToken: token } : undefined;
}

function finish(
  state: RunOccurrence,
  { by, token, outcome }: RunInput & { do: 'finish' },
  output: RunOutput | undefined,
  tells: (state: RunOccurrence, output: RunOutput | undefined) => boolean,
): RunOccurrence | undefined {
  const isRefused = output !== undefined && 'refused' in output;
  const isMine = state.by !== null && leaseOf(state.by) === leaseOf(by) && state.token === token;
  if (isMine && state.outcome === null) {
    if (state.ended.includes(leaseOf(by))) return output === undefined ? state : undefined;
    const after = { ...state, outcome };
    return !isRefused && tells(after, output) ? after : undefined;
  }
  const isRepeated = isMine ? state.outcome === outcome : outcome === 'failed' && state.failed.includes(token);
  if (isRepeated) return !isRefused && tells(state, output) ? state : undefined;
  return output === undefined || isRefused ? state : undefined;
}
