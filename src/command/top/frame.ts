/** One frame: what is known, in order and within bounds, as a value for programs and as lines for people. */
import { showDuration } from '../arguments/duration.js';
import type { Order } from '../commands/top.js';
import { failureOf } from '../failures.js';
import { table, visible } from '../output.js';
import type { Counts, Replica, Silent } from './replicas.js';
import { KINDS, type Known, type Survey } from './survey.js';

export interface Row {
  kind: string;
  name: string;
  /** Requests that wait now, or places in line if those are more. */
  waiting: number;
  oldestWaitMs: number;
  /** Waits that have ended within the last minutes, and how long they took. */
  waits: number;
  longestWaitMs: number;
  holders?: number;
  depth?: number;
}

export interface Frame {
  at: string;
  replicas: { url: string; error?: string }[];
  /** By list; null: this caller may not read it, or it has not been read yet. */
  totals: Record<string, { count: number; complete: boolean } | null>;
  waiting: number;
  /** Null: nothing was handed over, or the metrics are not to be had. */
  herdFactor: { now: number | null; sinceStart: number | null };
  items: Row[];
}

/** @param before the counts of the frame before */
export function frameOf(
  looked: readonly (Replica | Silent)[],
  survey: Survey,
  show: { order: Order; limit: number; before: Counts | undefined },
): Frame & { counts: Counts | undefined } {
  const rows = rowsOf(looked, survey);
  const counts = sumOf(looked);
  const { before } = show;
  const since = counts && before && minus(counts, before);
  return {
    at: new Date().toISOString(),
    replicas: looked.map((each) =>
      'error' in each ? { url: each.url, error: failureOf(each.error).message } : { url: each.url },
    ),
    totals: Object.fromEntries(Object.keys(KINDS).map((list) => [list, totalOf(survey.known.get(list as 'locks'))])),
    waiting: rows.reduce((sum, { waiting }) => sum + waiting, 0),
    herdFactor: { now: factorOf(since), sinceStart: factorOf(counts) },
    items: rows.sort(ORDER[show.order]).slice(0, show.limit),
    counts,
  };
}

const byName = (a: Row, b: Row): number => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.kind < b.kind ? -1 : 1);
const ORDER: Record<Order, (a: Row, b: Row) => number> = {
  waiting: (a, b) => b.waiting - a.waiting || b.oldestWaitMs - a.oldestWaitMs || byName(a, b),
  oldest: (a, b) => b.oldestWaitMs - a.oldestWaitMs || b.waiting - a.waiting || byName(a, b),
  depth: (a, b) => (b.depth ?? -1) - (a.depth ?? -1) || b.waiting - a.waiting || byName(a, b),
  name: byName,
};

function rowsOf(looked: readonly (Replica | Silent)[], survey: Survey): Row[] {
  const rows = new Map<string, Row>();
  const rowOf = (kind: string, name: string): Row => {
    const found = rows.get(`${kind} ${name}`);
    const row = found ?? { kind, name, waiting: 0, oldestWaitMs: 0, waits: 0, longestWaitMs: 0 };
    if (!found) rows.set(`${kind} ${name}`, row);
    return row;
  };
  for (const replica of looked) {
    if ('error' in replica) continue;
    for (const { kind, name, waiting, oldestWaitMs, waits, longestWaitMs } of replica.contended) {
      const row = rowOf(kind, name);
      row.waiting += waiting;
      row.waits += waits;
      row.oldestWaitMs = Math.max(row.oldestWaitMs, oldestWaitMs);
      row.longestWaitMs = Math.max(row.longestWaitMs, longestWaitMs);
    }
  }
  for (const [list, known] of survey.known)
    for (const { name, holderCount, waiterCount = 0, candidateCount, oldestWaitSince, depth } of known?.items ?? []) {
      const row = rowOf(KINDS[list], name);
      // One of the candidates leads.
      row.waiting = Math.max(row.waiting, candidateCount === undefined ? waiterCount : candidateCount - 1);
      if (oldestWaitSince) row.oldestWaitMs = Math.max(row.oldestWaitMs, Date.now() - Date.parse(oldestWaitSince));
      if (holderCount !== undefined) row.holders = holderCount;
      if (depth !== undefined) row.depth = depth;
    }
  return [...rows.values()];
}

function totalOf(known: Known | undefined): Frame['totals'][string] {
  return known === undefined ? null : { count: known.items.length, complete: known.complete };
}

function sumOf(looked: readonly (Replica | Silent)[]): Counts | undefined {
  const all = looked.flatMap((each) => ('error' in each || each.counts === undefined ? [] : [each.counts]));
  if (all.length < looked.length) return undefined;
  return all.reduce((sum, { wakeups, handoffs }) => ({
    wakeups: sum.wakeups + wakeups,
    handoffs: sum.handoffs + handoffs,
  }));
}

function minus(one: Counts, other: Counts): Counts {
  return { wakeups: one.wakeups - other.wakeups, handoffs: one.handoffs - other.handoffs };
}

function factorOf(counts: Counts | undefined): number | null {
  if (counts === undefined || counts.handoffs <= 0) return null;
  return Math.round((counts.wakeups / counts.handoffs) * 100) / 100;
}

/** Lines for people. @param columns the width of the terminal */
export function linesOf(frame: Frame, order: Order, columns = Infinity): string[] {
  const { replicas, totals, waiting, herdFactor, items } = frame;
  const answered = replicas.filter(({ error }) => error === undefined).length;
  const counted = Object.entries(totals).map(
    ([list, total]) => `${list} ${total === null ? '-' : `${total.count}${total.complete ? '' : '+'}`}`,
  );
  const shownAs = (factor: number | null): string => (factor === null ? '-' : factor.toFixed(2));
  const rows = items.map((row) => [
    row.kind,
    row.name,
    String(row.waiting),
    row.oldestWaitMs === 0 ? '-' : showDuration(row.oldestWaitMs),
    String(row.waits),
    row.longestWaitMs === 0 ? '-' : showDuration(row.longestWaitMs),
    String(row.holders ?? '-'),
    String(row.depth ?? '-'),
  ]);
  const head = ['KIND', 'NAME', 'WAITING', 'OLDEST', 'WAITS', 'LONGEST', 'HOLDERS', 'DEPTH'];
  return [
    `postern top  ${frame.at.slice(11, 19)}Z  ${answered} of ${replicas.length} replicas  by ${order}`,
    counted.join('  '),
    `waiting ${waiting}  herd factor ${shownAs(herdFactor.now)}, ${shownAs(herdFactor.sinceStart)} since the start`,
    ...replicas.flatMap(({ url, error }) => (error === undefined ? [] : [visible(`${url}: ${error}`)])),
    '',
    ...table(head, rows).split('\n'),
  ].map((line) => (line.length > columns ? `${line.slice(0, Math.max(0, columns - 1))}…` : line));
}
