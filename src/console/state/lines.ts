/**
 * All that have a line: who holds is told live by the stream; how many wait is read from the lists, in rounds, and from
 * what this replica knows of its own waiting requests.
 */
import { useMemo } from 'preact/hooks';
import { LISTS, type ElectionState, type HeldState, type Schemas } from '../api/contract.js';
import { revisionOf, thingsOf } from './live.js';
import { useSurvey } from './survey.js';

export const LINE_KINDS = ['lock', 'rwlock', 'semaphore', 'election'] as const;
export type LineKind = (typeof LINE_KINDS)[number];

export const isLineKind = (text: string): text is LineKind => (LINE_KINDS as readonly string[]).includes(text);

/** Who holds, or leads. */
export interface Holder {
  readonly holdId: string | null;
  readonly leaseId: string | null;
  readonly principal: string | null;
  readonly label: string | null;
  readonly fencingToken: number;
  readonly since: string;
  /** What it said about itself: the data of a hold, the value of a leader. */
  readonly data: unknown;
  readonly mode?: string;
  readonly count?: number;
  readonly external: boolean;
  readonly reservation?: Schemas['HolderReservation'];
}

export interface Line {
  readonly kind: LineKind;
  readonly name: string;
  readonly holders: readonly Holder[];
  /** Undefined until it has been read. */
  readonly waiting: number | undefined;
  readonly oldestWaitSince: string | null;
}

interface Waits {
  readonly waiting: number;
  readonly oldestWaitSince: string | null;
}

export function holdersOf(state: HeldState | ElectionState): readonly Holder[] {
  if ('holders' in state) return state.holders;
  return state.leader === null ? [] : [leaderAsHolder(state.leader)];
}

function leaderAsHolder({ candidateId, value, ...leader }: Schemas['Leader']): Holder {
  return { ...leader, holdId: candidateId, data: value };
}

export function useLines(): { lines: readonly Line[]; error: unknown } {
  const surveys = [
    useSurvey<Schemas['LockSummary']>(LISTS.lock),
    useSurvey<Schemas['LockSummary']>(LISTS.rwlock),
    useSurvey<Schemas['SemaphoreSummary']>(LISTS.semaphore),
    useSurvey<Schemas['ElectionSummary']>(LISTS.election),
  ] as const;
  const values = surveys.map(({ value }) => value);
  const waits = useMemo(
    () => new Map(values.flatMap((read, index) => waitsOf(LINE_KINDS[index] as LineKind, read?.items ?? []))),
    values,
  );
  const revision = LINE_KINDS.map(revisionOf).join(' ');
  const lines = useMemo(() => linesOf(waits), [revision, waits]);
  return { lines, error: surveys.find(({ error }) => error !== undefined)?.error };
}

function waitsOf(
  kind: LineKind,
  items: readonly (Schemas['LockSummary'] | Schemas['ElectionSummary'])[],
): [string, Waits][] {
  return items.map((item) => [
    `${kind}:${item.name}`,
    'waiterCount' in item
      ? { waiting: item.waiterCount, oldestWaitSince: item.oldestWaitSince }
      : { waiting: item.candidateCount - (item.leader === null ? 0 : 1), oldestWaitSince: null },
  ]);
}

function linesOf(waits: ReadonlyMap<string, Waits>): readonly Line[] {
  const lines: Line[] = [];
  for (const kind of LINE_KINDS)
    for (const [name, state] of thingsOf(kind) as ReadonlyMap<string, HeldState | ElectionState>) {
      const known = waits.get(`${kind}:${name}`);
      lines.push({
        kind,
        name,
        holders: holdersOf(state),
        waiting: known?.waiting,
        oldestWaitSince: known?.oldestWaitSince ?? null,
      });
    }
  // Most waited for first; otherwise by name.
  return lines.sort((one, other) => (other.waiting ?? 0) - (one.waiting ?? 0) || (one.name < other.name ? -1 : 1));
}
