/**
 * What the messages to a group are, as one object that does one thing at a time: a list that only grows, of which each
 * reader reads what is behind its cursor. For histories in which nothing is dropped.
 */
import type { Model } from './linearizable.js';

export type MessagesInput =
  | { readonly do: 'post'; readonly body: string }
  /** Where a reader begins that begins now. */
  | { readonly do: 'begin' }
  | { readonly do: 'read'; readonly after: number };

export interface MessagesRead {
  readonly read: readonly (readonly [number: number, body: string])[];
  readonly cursor: number;
  readonly missed: boolean;
}
export type MessagesOutput = { readonly number: number } | { readonly cursor: number } | MessagesRead;

export interface Messages {
  /** The number of the first; undefined: nobody was told of any. */
  readonly start: number | undefined;
  readonly bodies: readonly string[];
}

/** Of one answer. */
const LIMIT = 100;

export const messagesModel: Model<Messages, MessagesInput, MessagesOutput> = {
  initial: { start: undefined, bodies: [] },
  step(state, input, output) {
    const { bodies } = state;
    switch (input.do) {
      case 'post': {
        const after = { ...state, bodies: [...bodies, input.body] };
        return output !== undefined && 'number' in output ? numbered(after, bodies.length, output.number) : after;
      }
      case 'begin': {
        if (output === undefined || !('cursor' in output) || bodies.length === 0) return state;
        return numbered(state, bodies.length - 1, output.cursor);
      }
      case 'read':
        return output !== undefined && 'read' in output ? read(state, input.after, output) : state;
    }
  },
  key: ({ start, bodies }) => `${start} ${bodies.join(',')}`,
};

/** In which the message at `index` has this number; undefined where it has another one. */
function numbered(state: Messages, index: number, number: number): Messages | undefined {
  if (state.start !== undefined) return state.start + index === number ? state : undefined;
  return { ...state, start: number - index };
}

function read(state: Messages, after: number, { read, cursor, missed }: MessagesRead): Messages | undefined {
  if (missed) return undefined;
  const [first] = read;
  if (first === undefined && (state.start === undefined || state.bodies.length === 0)) return state;
  const known = first === undefined ? state : numbered(state, state.bodies.indexOf(first[1]), first[0]);
  const start = known?.start;
  if (known === undefined || start === undefined) return undefined;
  const all = known.bodies.map((body, i) => [start + i, body] as const);
  const behind = all.filter(([number]) => number > after).slice(0, LIMIT);
  const last = behind.at(-1) ?? all.at(-1);
  return JSON.stringify(behind) === JSON.stringify(read) && last?.[0] === cursor ? known : undefined;
}
