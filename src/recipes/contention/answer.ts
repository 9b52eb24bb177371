/**
 * What one process answers about its contention, of all namespaces, as it stands in ZooKeeper: bounded in bytes, so of
 * each namespace only the most contended names, and as many of one namespace as of another.
 */
import { KINDS } from '../../metrics/labels.js';
import { mostContendedFirst, type ContentionTold } from '../waiting/contention.js';

/** Some 400 names; a node may have 1 MiB. */
export const ANSWER_BYTES_MAX = 64 * 1024;
/** Of what stands beside the names. */
const FRAME_BYTES = 1024;
const NAMESPACE_BYTES = 64;

/** Which process it is. */
export interface Answerer {
  /** Of this process alone, however many sessions it has one after the other. */
  readonly process: string;
  /** What people call the replica that it is part of. */
  readonly replica: string;
  /** With `replica`: the same for all processes of one replica, and for no others. */
  readonly group: string;
}

export interface Answer extends Answerer {
  readonly question: number;
  readonly namespaces: readonly {
    readonly namespace: string;
    readonly told: readonly ContentionTold[];
    /** Whether these are all names of this namespace. */
    readonly complete: boolean;
  }[];
  /** Whether these are all namespaces. */
  readonly complete: boolean;
}

export function encodeAnswer(
  { process, replica, group }: Answerer,
  question: number,
  all: ReadonlyMap<string, readonly ContentionTold[]>,
): Buffer {
  const lists = [...all].map(([namespace, names]) => ({
    namespace,
    names: [...names].sort(mostContendedFirst),
    told: [] as ContentionTold[],
  }));
  let left = ANSWER_BYTES_MAX - FRAME_BYTES;
  for (const { list, one } of inTurns(lists)) {
    left -= Buffer.byteLength(JSON.stringify(one)) + 1;
    if (list.told.length === 0) left -= NAMESPACE_BYTES + list.namespace.length;
    if (left < 0) break;
    list.told.push(one);
  }
  const namespaces = lists
    .filter(({ told }) => told.length > 0)
    .map(({ namespace, names, told }) => ({ namespace, told, complete: told.length === names.length }));
  const complete = namespaces.length === lists.length;
  return Buffer.from(JSON.stringify({ process, replica, group, question, namespaces, complete } satisfies Answer));
}

/** The first of each list, then the second of each, and so on. */
function* inTurns<L extends { names: readonly ContentionTold[] }>(
  lists: readonly L[],
): Generator<{ list: L; one: ContentionTold }> {
  const first = [...lists].sort((a, b) => compareFirst(a.names, b.names));
  for (let turn = 0, some = true; some; turn += 1) {
    some = false;
    for (const list of first) {
      const one = list.names[turn];
      if (one === undefined) continue;
      some = true;
      yield { list, one };
    }
  }
}

function compareFirst([a]: readonly ContentionTold[], [b]: readonly ContentionTold[]): number {
  return a === undefined || b === undefined ? 0 : mostContendedFirst(a, b);
}

/** @returns undefined for anything that is no answer, such as that of a later release in another form */
export function decodeAnswer(data: Uint8Array): Answer | undefined {
  try {
    const read = JSON.parse(Buffer.from(data).toString('utf8')) as Answer;
    return isAnswer(read) ? read : undefined;
  } catch {
    return undefined;
  }
}

function isAnswer({ process, replica, group, question, namespaces, complete }: Answer): boolean {
  return (
    [process, replica, group].every((text) => typeof text === 'string') &&
    Number.isInteger(question) &&
    typeof complete === 'boolean' &&
    namespaces.every(
      (one) =>
        typeof one.namespace === 'string' &&
        typeof one.complete === 'boolean' &&
        one.told.every((told) => isTold(told)),
    )
  );
}

function isTold({ kind, scopeKind, name, ...numbers }: ContentionTold): boolean {
  const { waiting, oldestWaitMs, waits, waitMs, longestWaitMs, conflicts } = numbers;
  return (
    KINDS.includes(kind) &&
    [scopeKind, name].every((text) => typeof text === 'string') &&
    [waiting, oldestWaitMs, waits, waitMs, longestWaitMs, conflicts].every((count) => Number.isInteger(count))
  );
}
