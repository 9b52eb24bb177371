/**
 * The public view of a line: holders and waiters. Questions about one name are read behind a quorum
 * (`ControlSession.readLatest`), unless asked otherwise; lists of names are read after a `sync`.
 *
 * `granted` counts only for contenders that the line admits (`rule.ts`); an admitted one that still waits is about to
 * be granted. At a lock by priority nearly all who wait are in the room in front of the line: they are shown behind it.
 */
import { ROOM, type LineKind } from '../../leases/layout.js';
import { lengthShown } from '../../json-text.js';
import type { Page } from '../../page.js';
import { readRule } from './permits/agreement.js';
import { byNumber, shownLine, type Contender } from './contender.js';
import type { Coordination } from '../coordination.js';
import { CONTENDER_BYTES, describeContender, type ContenderView } from './describe.js';
import { readLineDirectory } from './directory.js';
import { delayBeside, findDelay, type Locked } from './delay/lock-delay.js';
import { readPage } from '../full-page.js';
import { readLinePage, type LinePage } from '../line-page.js';
import { listInUse } from '../names-in-use.js';
import { permitsOf, type LineRule } from './rule.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { readOfMany, type ReadNode } from '../../zookeeper/read-nodes.js';

/** Holders, and waiters, that are shown inside an answer; the rest of the waiters is paged. */
export const SHOWN = 100;

/** A line, as callers name it. */
export interface LineName {
  kind: LineKind;
  namespace: string;
  name: string;
}

export interface LineView {
  name: string;
  /** Semaphores only: how many permits there are, and how many are held. */
  limit: number | undefined;
  permitsHeld: number | undefined;
  holders: ContenderView[];
  holderCount: number;
  waiters: WaiterView[];
  waiterCount: number;
  /** Epoch ms: since when the longest waiting one does. */
  oldestWaitSince: number | null;
  /** Epoch ms on the ensemble's clock, while a lock-delay runs. */
  lockedUntil: number | undefined;
  /** Locks only: in which order it is taken, also while nobody does. */
  byPriority: boolean;
}

export type WaiterView = ContenderView & { position: number };

export interface Read {
  contender: Contender;
  view: ContenderView;
}

export function describeLine(context: Coordination, line: LineName, deadline: number): Promise<LineView> {
  const zk = context.control.until(deadline);
  return zk.fresh(() => describeLineStale(context, zk, line));
}

/** As often a line is looked at when somebody goes between its listing and the reading of those who stand in it. */
const LOOKS = 3;

/**
 * As the server at hand knows it.
 * @param waitersMost so many waiters are in the view
 */
export async function describeLineStale(
  context: Coordination,
  zk: BoundClient,
  line: LineName,
  waitersMost = SHOWN,
): Promise<LineView> {
  for (let look = 1; ; look += 1) {
    const { view, settled } = await lookAt(context, zk, line, waitersMost);
    if (settled || look === LOOKS) return view;
  }
}

/** How many of those who wait are read for a list, which shows none of them. */
const WAITERS_OF_LISTED = 4;

/**
 * @returns `settled`: all that were listed were there when they were read. Else the view is of those who were: it
 *   counts what it shows.
 */
async function lookAt(
  context: Coordination,
  zk: BoundClient,
  { kind, namespace, name }: LineName,
  waitersMost: number,
): Promise<{ view: LineView; settled: boolean }> {
  const directory = context.layout.line(kind, namespace, name);
  const rooms = context.layout.line(ROOM, namespace, name);
  const [listing, rule] = await readLineAndRule(zk, kind, directory, rooms);
  const { line, delays, room } = listing;
  const admitted = rule.holding(line);
  // The places of a semaphore are not granted before their turn, so each has to be asked.
  const asked = line.slice(0, rule.limit === undefined ? Math.min(admitted, SHOWN) : admitted);
  const next = line.slice(admitted, admitted + waitersMost);
  const inRoom = room.slice(0, waitersMost - next.length);
  const excluding = delays ? delayBeside(context, zk, directory, line, listing.zxid) : undefined;
  const standing = new Set(line.map(({ name: node }) => node));
  // The first of a room is not who has waited longest.
  const oldest = room.toSorted(byNumber).slice(0, 1);
  const [first, behind, last, longest, locked] = await Promise.all([
    readFirst(context, zk, directory, asked, excluding),
    readContenders(context, zk, directory, next),
    readContenders(context, zk, rooms, inRoom),
    readContenders(context, zk, rooms, oldest),
    delays && line[0]?.reads === true ? findDelay(context, zk, directory, { standing }) : excluding,
  ]);
  const holders = first.filter(({ view }) => view.state === 'granted');
  const waiters = [...first.filter(({ view }) => view.state === 'waiting'), ...behind, ...last];
  const waitingFirst = first.length - holders.length;
  const shown = {
    name,
    limit: rule.limit,
    permitsHeld:
      rule.limit === undefined ? undefined : holders.reduce((n, { contender }) => n + permitsOf(contender), 0),
    holders: holders.slice(0, SHOWN).map(({ view }) => view),
    holderCount: admitted - asked.length + holders.length,
    waiters: waiters.slice(0, waitersMost).map(({ view }, i) => ({ ...view, position: i + 1 })),
    waiterCount:
      line.length - admitted - next.length + behind.length + waitingFirst + room.length - inRoom.length + last.length,
    oldestWaitSince: earliest([...waiters.slice(0, 1), ...longest]),
    lockedUntil: locked?.lockedUntil,
    byPriority: kind === 'lock' && listing.byPriority,
  };
  const settled = first.length === asked.length && behind.length === next.length && last.length === inRoom.length;
  return { view: shown, settled };
}

function earliest(read: readonly Read[]): number | null {
  return read.length === 0 ? null : Math.min(...read.map(({ view }) => view.since));
}

/** Waiters in line order. Their `data` is not shown: it is neither kept nor does it fill a page. */
export async function listWaiters(
  context: Coordination,
  zk: BoundClient,
  { kind, namespace, name }: LineName,
  page: LinePage,
): Promise<{ items: WaiterView[]; next: string | undefined }> {
  const directory = context.layout.line(kind, namespace, name);
  const rooms = context.layout.line(ROOM, namespace, name);
  const reading = (): Promise<[Listing, LineRule]> => readLineAndRule(zk, kind, directory, rooms);
  const [listing, rule] = await zk.fresh(reading);
  const { line } = listing;
  const admitted = rule.holding(line);
  const excluding = listing.delays ? delayBeside(context, zk, directory, line, listing.zxid) : undefined;
  const first = (await readFirst(context, zk, directory, line.slice(0, admitted), excluding))
    .filter(({ view }) => view.state === 'waiting')
    .map(({ contender }) => contender);
  const waiting = [...first, ...line.slice(admitted), ...listing.room];
  const pathOf = (one: Contender): string => `${one.priority === undefined ? directory : rooms}/${one.name}`;
  const read = async (some: readonly Contender[]): Promise<(Read | undefined)[]> =>
    (await readEach(context, zk, some, pathOf)).map((one) => one && { ...one, view: { ...one.view, data: undefined } });
  const { items, next } = await readLinePage(waiting, page, (wanted) => readPage(wanted, read, () => 0));
  return { items: items.map(({ view, contender }) => ({ ...view, position: waiting.indexOf(contender) + 1 })), next };
}

/** Whether a fencing token belongs to a present holder, by a quorum. */
export async function checkToken(
  context: Coordination,
  zk: BoundClient,
  { kind, namespace, name }: LineName,
  fencingToken: number,
): Promise<{ current: boolean; latestFencingToken: number | null }> {
  const directory = context.layout.line(kind, namespace, name);
  const first = await zk.fresh(async () => {
    const [listing, rule] = await readLineAndRule(zk, kind, directory);
    const { line, delays, zxid } = listing;
    const excluding = delays ? delayBeside(context, zk, directory, line, zxid) : undefined;
    return readFirst(context, zk, directory, line.slice(0, rule.holding(line)), excluding);
  });
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
  oldestWaitSince: number | null;
}

/** Names that somebody holds or waits for, in their order. */
export async function listLines(
  context: Coordination,
  zk: BoundClient,
  kind: LineKind,
  namespace: string,
  page: Page,
): Promise<{ items: LineSummary[]; next: string | undefined }> {
  const parent = context.layout.lines(kind, namespace);
  const describe = async (name: string): Promise<LineSummary | undefined> => {
    // The first of those who wait has waited longest; it may leave meanwhile.
    const described = await describeLineStale(context, zk, { kind, namespace, name }, WAITERS_OF_LISTED);
    const { waiters: _, lockedUntil: __, byPriority: ___, ...line } = described;
    return line.holderCount + line.waiterCount === 0 ? undefined : line;
  };
  // Of a lock by priority all may be in the room.
  const mayBeInUse = ({ stat }: ReadNode): boolean => kind === 'lock' && readLineDirectory(stat).byPriority;
  const lengthOf = ({ holders }: LineSummary): number => holders.reduce((sum, { data }) => sum + lengthShown(data), 0);
  return listInUse(zk, parent, page, describe, { mayBeInUse, lengthOf });
}

/** @param rooms of a lock by priority those who wait in the room at this path are listed too */
async function readLineAndRule(
  zk: BoundClient,
  kind: LineKind,
  directory: string,
  rooms?: string,
): Promise<[Listing, LineRule]> {
  const [listing, rule] = await Promise.all([readListing(zk, directory), readRule(zk, kind, directory)]);
  if (kind !== 'lock' || !listing.byPriority || rooms === undefined) return [listing, rule];
  // The room before the line, as they go: whoever is in both has gone from the first.
  const [{ line: room }, now] = await Promise.all([readListing(zk, rooms), readListing(zk, directory)]);
  return [{ ...now, room }, rule];
}

/** As the server at hand knows it. */
export async function readLine(zk: BoundClient, directory: string): Promise<Contender[]> {
  return (await readListing(zk, directory)).line;
}

interface Listing {
  line: Contender[];
  /** Of a lock by priority: those who wait in the room in front of it. */
  room: Contender[];
  /** There may be lock-delays in it. */
  delays: boolean;
  byPriority: boolean;
  /** How new it is. */
  zxid: number;
}

async function readListing(zk: BoundClient, directory: string): Promise<Listing> {
  const listing = await zk.list(directory);
  if (listing === undefined) return { line: [], room: [], delays: false, byPriority: false, zxid: 0 };
  const { children, stat, zxid } = listing;
  const { delays, byPriority } = readLineDirectory(stat);
  return { line: shownLine(children), room: [], delays, byPriority, zxid };
}

/**
 * Those whom the line admits.
 * @param excluding the delay beside which it does not count that they say `granted`: they wait for its end
 */
async function readFirst(
  context: Reader,
  zk: BoundClient,
  directory: string,
  first: readonly Contender[],
  excluding: Promise<Locked | undefined> | undefined,
): Promise<Read[]> {
  const [read, locked] = await Promise.all([readContenders(context, zk, directory, first), excluding]);
  if (locked === undefined) return read;
  return read.map(({ contender, view }) => ({ contender, view: view.external ? view : { ...view, state: 'waiting' } }));
}

/** What reading contenders takes of it. */
export type Reader = Pick<Coordination, 'control'>;

/** The contenders that still exist, with what may be shown of them. */
export async function readContenders(
  context: Reader,
  zk: BoundClient,
  directory: string,
  contenders: readonly Contender[],
): Promise<Read[]> {
  const read = await readEach(context, zk, contenders, ({ name }) => `${directory}/${name}`);
  return read.filter((one) => one !== undefined);
}

/** The same, with undefined in the place of those who have gone. */
export function readEach(
  { control }: Reader,
  zk: BoundClient,
  contenders: readonly Contender[],
  pathOf: (contender: Contender) => string,
): Promise<(Read | undefined)[]> {
  const describe = (node: ReadNode, i: number): Read => {
    const contender = contenders[i] as Contender;
    return { contender, view: describeContender(contender, node) };
  };
  return readOfMany(zk, control.largeReads, contenders.map(pathOf), describe, CONTENDER_BYTES);
}
