/**
 * Runs: of each occurrence of a job, such as the backup of one night, somebody does the work once.
 *
 * Guarantee: of one occurrence at most one attempt runs at a time, as ZooKeeper sees it, and every attempt is that of a
 *   living lease. When it ended without success (it says so, or its lease ended), the next who asks gets the next
 *   attempt, with a higher fencing token, until there were as many as the first start allowed. Once it was finished as
 *   done, nobody is started for that occurrence again, for as long as it is remembered.
 * Not guaranteed: that it is remembered forever. A name has its last occurrences, in the order in which they were first
 *   started, and loses them all when it has not changed for long (`tidy.ts`); both bounds are settings. Nor that a
 *   paused process has noticed that its lease is gone: what it writes to has to compare the fencing token. Nor that
 *   somebody asks: an attempt that was lost is made again only by a start that comes later, or waits.
 *
 * Layout:  <root>/ns/<namespace>/runs/<name>           persistent; its occurrences, oldest first, in its data
 *          <root>/ns/<namespace>/leases/<bb>/<leaseId> the life of an attempt: the lease's own node, ephemeral
 * Source:  none; a compare-and-set of one node, with a check of the lease's own node in each transaction.
 *
 * Reading order: this; `decide.ts`; `runs.ts`; `observers.ts`; `tidy.ts`. docs/protocol.md walks through it (C48).
 */
import { StandingConflictError } from '../../errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { expectKnown, type KnownFields } from '../known-record.js';

/** Of one name in one namespace. */
export interface RunRef {
  readonly namespace: string;
  readonly name: string;
  readonly path: string;
}

/** `open`: no attempt runs, and the next who asks gets one. */
export type RunState = 'running' | 'done' | 'failed' | 'open';

/**
 * Which occurrence a start means: its id; or the last one, if that runs or was first started within so many ms, and
 * otherwise a new one.
 */
export type WhichOccurrence = string | { readonly withinMs: number };

/** What an attempt says of itself when it ends. */
export type RunOutcome = 'done' | 'failed';

/** One occurrence, and its last attempt. */
export interface RunRecord {
  readonly occurrence: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Of the attempt: higher than those of all attempts under this name before it. */
  readonly fencingToken: number;
  /** Who has the attempt: the lease, and which of its requests (`Lease.guid`). */
  readonly leaseId: string;
  readonly guid: string;
  readonly principal: string;
  readonly label: string;
  /** Epoch ms, on the ensemble's clock as far as the replica knew it; for humans. */
  readonly startedAt: number;
  /** The same of its first attempt: starts that come soon after it may mean this occurrence (`decide.ts`). */
  readonly firstStartedAt: number;
  /** With how it ended; without, it runs while its lease lives. */
  readonly end?: { readonly outcome: RunOutcome; readonly at: number; readonly note?: string };
  /** Earlier attempts that were finished as failed, so that a repeated finish is known: `<fencingToken> <leaseId>`. */
  readonly failures: readonly string[];
}

/** A record, and whether its attempt runs. */
export interface Occurrence {
  readonly record: RunRecord;
  readonly state: RunState;
}

/** All that is remembered of a name. */
export interface RunView {
  /** Oldest first. */
  readonly occurrences: readonly Occurrence[];
  readonly etag: string;
}

export function decodeRuns(name: string, { data }: Pick<NodeData, 'data'>): RunRecord[] {
  if (data.length === 0) return [];
  const runs = parseRuns(name, data);
  if (runs === undefined)
    throw new StandingConflictError(`The znode of the runs "${name}" holds something else: these are no runs.`);
  return runs;
}

const KNOWN_RUNS: KnownFields<{ runs: RunRecord[] }> = { runs: true };
const KNOWN_RUN: KnownFields<RunRecord> = {
  occurrence: true,
  attempt: true,
  maxAttempts: true,
  fencingToken: true,
  leaseId: true,
  guid: true,
  principal: true,
  label: true,
  startedAt: true,
  firstStartedAt: true,
  end: true,
  failures: true,
};
const KNOWN_END: KnownFields<NonNullable<RunRecord['end']>> = { outcome: ['done', 'failed'], at: true, note: true };

/**
 * @returns undefined for what somebody else has put there
 * @throws NewerRecordError
 */
export function parseRuns(name: string, data: Buffer): RunRecord[] | undefined {
  const stored = parse(data);
  if (!Array.isArray(stored?.runs)) return undefined;
  const what = `the runs "${name}"`;
  const { runs } = expectKnown(what, stored, KNOWN_RUNS);
  for (const run of runs) {
    expectKnown(what, run, KNOWN_RUN);
    if (run.end !== undefined) expectKnown(what, run.end, KNOWN_END);
  }
  return runs;
}

function parse(data: Buffer): { runs: RunRecord[] } | undefined {
  try {
    return JSON.parse(data.toString('utf8')) as { runs: RunRecord[] };
  } catch {
    return undefined;
  }
}

export function encodeRuns(runs: readonly RunRecord[]): Buffer {
  return Buffer.from(JSON.stringify({ runs }));
}

/** Whether the attempt may run: then its lease has to be looked at. */
export function isUnfinished({ end }: RunRecord): boolean {
  return end === undefined;
}

/** @param lives whether the lease of the attempt lives; counts only where the attempt is unfinished */
export function stateOf({ end, attempt, maxAttempts }: RunRecord, lives: boolean): RunState {
  if (end?.outcome === 'done') return 'done';
  if (end === undefined && lives) return 'running';
  return attempt < maxAttempts ? 'open' : 'failed';
}

/**
 * What is shown of a name.
 * @param node undefined for none
 * @param living the ids of the leases of unfinished attempts that live
 */
export function viewOf(
  name: string,
  node: Pick<NodeData, 'data' | 'stat'> | undefined,
  living: ReadonlySet<string>,
): RunView {
  // One that was made for the first start, which has not been written yet.
  if (node === undefined || node.data.length === 0) return { occurrences: [], etag: '"0-0-0"' };
  const occurrences = (parseRuns(name, node.data) ?? []).map((record) => ({
    record,
    state: stateOf(record, living.has(record.leaseId)),
  }));
  // At one version leases only end, so their number tells which.
  const running = occurrences.filter(({ state }) => state === 'running').length;
  return { occurrences, etag: `"${node.stat.czxid}-${node.stat.version}-${running}"` };
}
