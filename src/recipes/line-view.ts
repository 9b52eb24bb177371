/**
 * What everybody may see of a line: who holds, who waits. Up to date: read after a `sync`, unless asked otherwise.
 *
 * `granted` counts only for those whom the line admits (`rule.ts`); one of them that still waits is on its way to its grant.
 */
import type { LineKind } from '../leases/layout.js';
import { pageOfNames, type Page } from '../page.js';
import { unless } from '../zookeeper/errors.js';
import { readRule } from './agreement.js';
import { shownLine, type Contender } from './contender.js';
import type { Coordination } from './coordination.js';
import { describeContender, type ContenderView } from './describe.js';
import { readLineDirectory } from './line-directory.js';
import { findDelay } from './lock-delay.js';
import { permitsOf, type LineRule } from './rule.js';

/** Holders, and waiters, that are shown inside an answer; the rest of the waiters is paged. */
export const SHOWN = 100;

export interface LineView {
  name: string;
  /** Of a semaphore: how many permits there are, and how many are held. */
  limit: number | undefined;
  permitsHeld: number | undefined;
  holders: ContenderView[];
  holderCount: number;
  waiters: WaiterView[];
  waiterCount: number;
  /** Epoch ms on the ensemble's clock, while a lock-delay runs. */
  lockedUntil: number | undefined;
}

export type WaiterView = ContenderView & { position: number };

export interface Read {
  contender: Contender;
  view: ContenderView;
}

export async function describeLine(
  context: Coordination,
  kind: LineKind,
  namespace: string,
  name: string,
  deadline: number,
  stale = false,
): Promise<LineView> {
  const directory = context.layout.line(kind, namespace, name);
  const [{ line, delays }, rule] = await Promise.all([
    readListing(context, directory, deadline, stale),
    readRule(context.control, kind, directory, deadline),
  ]);
  const admitted = rule.holding(line);
  // The places of a semaphore are not granted before their turn, so each has to be asked.
  const asked = rule.limit === undefined ? Math.min(admitted, SHOWN) : admitted;
  const [first, behind, locked] = await Promise.all([
    readContenders(context, directory, line.slice(0, asked), deadline),
    readContenders(context, directory, line.slice(admitted, admitted + SHOWN), deadline),
    delays
      ? findDelay(context, directory, { standing: new Set(line.map(({ name: node }) => node)) }, deadline)
      : undefined,
  ]);
  const holders = first.filter(({ view }) => view.state === 'granted');
  const waiters = [...first.filter(({ view }) => view.state === 'waiting'), ...behind];
  const onTheirWay = first.length - holders.length;
  return {
    name,
    limit: rule.limit,
    permitsHeld:
      rule.limit === undefined ? undefined : holders.reduce((n, { contender }) => n + permitsOf(contender), 0),
    holders: holders.slice(0, SHOWN).map(({ view }) => view),
    holderCount: admitted - onTheirWay,
    waiters: waiters.slice(0, SHOWN).map(({ view }, i) => ({ ...view, position: i + 1 })),
    waiterCount: line.length - admitted + onTheirWay,
    lockedUntil: locked?.lockedUntil,
  };
}

/** Waiters in line order, beginning after position `after`. */
export async function listWaiters(
  context: Coordination,
  kind: LineKind,
  namespace: string,
  name: string,
  page: { after: number; limit: number },
  deadline: number,
): Promise<{ items: WaiterView[]; next: number | undefined }> {
  const directory = context.layout.line(kind, namespace, name);
  const [line, rule] = await readLineAndRule(context, kind, directory, deadline, false);
  const admitted = rule.holding(line);
  const first = await readContenders(context, directory, line.slice(0, admitted), deadline);
  const waiting = [
    ...first.filter(({ view }) => view.state === 'waiting').map(({ contender }) => contender),
    ...line.slice(admitted),
  ];
  const wanted = waiting.slice(page.after, page.after + page.limit);
  const contenders = await readContenders(context, directory, wanted, deadline);
  return {
    items: contenders.map(({ view, contender }) => ({ ...view, position: waiting.indexOf(contender) + 1 })),
    next: page.after + page.limit < waiting.length ? page.after + page.limit : undefined,
  };
}

/** Whether a fencing token is that of a present holder. Always up to date. */
export async function checkToken(
  context: Coordination,
  kind: LineKind,
  namespace: string,
  name: string,
  fencingToken: number,
  deadline: number,
): Promise<{ current: boolean; latestFencingToken: number | null }> {
  const directory = context.layout.line(kind, namespace, name);
  const [line, rule] = await readLineAndRule(context, kind, directory, deadline, false);
  const first = await readContenders(context, directory, line.slice(0, rule.holding(line)), deadline);
  const tokens = first.filter(({ view }) => view.state === 'granted').map(({ view }) => view.fencingToken);
  return { current: tokens.includes(fencingToken), latestFencingToken: tokens.at(-1) ?? null };
}

export interface LineSummary {
  name: string;
  limit: number | undefined;
  permitsHeld: number | undefined;
  holders: ContenderView[];
  holderCount: number;
  waiterCount: number;
  /** Epoch ms of the longest waiting one. */
  oldestWaitSince: number | null;
}

/** Names that somebody holds or waits for, in their order. */
export async function listLines(
  context: Coordination,
  kind: LineKind,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: LineSummary[]; next: string | undefined }> {
  const { control, layout } = context;
  const parent = layout.lines(kind, namespace);
  await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const items: LineSummary[] = [];
  for (let i = 0; i < names.length; i += page.limit) {
    const batch = await Promise.all(
      names.slice(i, i + page.limit).map((name) => describeLine(context, kind, namespace, name, deadline, true)),
    );
    for (const { waiters, lockedUntil: _, ...line } of batch) {
      if (line.holderCount + line.waiterCount === 0) continue;
      if (items.length === page.limit) return { items, next: items.at(-1)?.name };
      items.push({ ...line, oldestWaitSince: waiters[0]?.since ?? null });
    }
  }
  return { items, next: undefined };
}

/** Read after the same `sync`. */
async function readLineAndRule(
  context: Coordination,
  kind: LineKind,
  directory: string,
  deadline: number,
  stale: boolean,
): Promise<[Contender[], LineRule]> {
  return Promise.all([
    readLine(context, directory, deadline, stale),
    readRule(context.control, kind, directory, deadline),
  ]);
}

export async function readLine(
  context: Coordination,
  directory: string,
  deadline: number,
  stale: boolean,
): Promise<Contender[]> {
  return (await readListing(context, directory, deadline, stale)).line;
}

/** The line, and whether there may be lock-delays in it. */
async function readListing(
  context: Coordination,
  directory: string,
  deadline: number,
  stale: boolean,
): Promise<{ line: Contender[]; delays: boolean }> {
  const { control } = context;
  const [, listing] = await Promise.all([
    stale ? undefined : control.sync(directory, deadline),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
  ]);
  if (listing === undefined) return { line: [], delays: false };
  return { line: shownLine(listing.children), delays: readLineDirectory(listing.stat).delays };
}

/** Those that still exist, with what may be shown of them. */
export async function readContenders(
  context: Coordination,
  directory: string,
  contenders: readonly Contender[],
  deadline: number,
): Promise<Read[]> {
  const nodes = await Promise.all(
    contenders.map((contender) =>
      unless(context.control.getData(`${directory}/${contender.name}`, deadline), 'NO_NODE'),
    ),
  );
  return nodes.flatMap((node, i) => {
    const contender = contenders[i] as Contender;
    return node === undefined ? [] : [{ contender, view: describeContender(contender, node) }];
  });
}
