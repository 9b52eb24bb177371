/**
 * Where requests wait: for each name with waiters in this replica within the last minutes, how many wait now, for how
 * long, and what happened since. In memory only, and bounded; metrics cannot show it, because names are not labels.
 *
 *   begin ──▶ waiting ──end──▶ counted in the minute in which it ended ──after the window──▶ forgotten
 */
import type { Kind } from '../../metrics/metrics.js';
import { MINUTE } from '../../time.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';

export interface Contended {
  kind: Kind;
  name: string;
  /** Requests that wait now. */
  waiting: number;
  /** Of those that wait now; 0 when none does. */
  oldestWaitMs: number;
  /** Waits that ended within the window, and how long they were. */
  waits: number;
  meanWaitMs: number;
  longestWaitMs: number;
  /** Of queues: messages that somebody else had taken in that moment, within the window. */
  conflicts: number;
}

/** What one process tells of one name. */
export interface ContentionTold {
  kind: Kind;
  /** What credentials name in their scopes, such as `double-barrier`. */
  scopeKind: string;
  name: string;
  waiting: number;
  oldestWaitMs: number;
  waits: number;
  /** Of all waits together. */
  waitMs: number;
  longestWaitMs: number;
  conflicts: number;
}

/** A name for which requests wait now. */
export interface Waited {
  kind: Kind;
  namespace: string;
  name: string;
  waiting: number;
  oldestWaitMs: number;
}

/** How far back it is told of. */
export const CONTENTION_WINDOW_MS = 5 * MINUTE;
const SLICE_MS = MINUTE;
const SLICES = CONTENTION_WINDOW_MS / SLICE_MS;
/** Names that are remembered; the one that was least recently waited for goes first, unless somebody waits. */
const NAMES_MAX = 10_000;

interface Slice {
  /** Since the process began, in slices. */
  number: number;
  waits: number;
  waitMs: number;
  longestWaitMs: number;
  conflicts: number;
}

interface Entry {
  kind: Kind;
  namespace: string;
  /** What credentials name in their scopes, such as `double-barrier`. */
  scopeKind: string;
  name: string;
  /** When those that wait now began, the first one first. */
  open: Set<{ since: number }>;
  slices: Slice[];
}

export class Contention {
  /** By path, least recently used first. */
  readonly #entries = new Map<string, Entry>();

  /**
   * A request begins to wait.
   * @param path of what it waits for: `…/<namespace>/<kind>s/<name>`
   * @returns what is to be called when it does not wait any more, however it ended
   */
  begin(kind: Kind, path: string): () => void {
    const entry = this.#entry(kind, path);
    const wait = { since: performance.now() };
    entry.open.add(wait);
    return () => {
      if (!entry.open.delete(wait)) return;
      const slice = currentSlice(entry);
      const ms = performance.now() - wait.since;
      slice.waits += 1;
      slice.waitMs += ms;
      slice.longestWaitMs = Math.max(slice.longestWaitMs, ms);
    };
  }

  conflict(kind: Kind, path: string): void {
    currentSlice(this.#entry(kind, path)).conflicts += 1;
  }

  /** All names of a namespace about which there is anything to tell. */
  tell(namespace: string): ContentionTold[] {
    return this.#told((entry) => entry.namespace === namespace).map(([, told]) => told);
  }

  /** The same of all namespaces, by namespace. */
  tellAll(): Map<string, ContentionTold[]> {
    const all = new Map<string, ContentionTold[]>();
    for (const [namespace, told] of this.#told(() => true)) {
      const before = all.get(namespace);
      if (before === undefined) all.set(namespace, [told]);
      else before.push(told);
    }
    return all;
  }

  /** The names for which requests wait now, of all namespaces, those with the longest lines first. */
  waitedFor(): Waited[] {
    const now = performance.now();
    return [...this.#entries.values()]
      .filter(({ open }) => open.size > 0)
      .sort((a, b) => b.open.size - a.open.size)
      .map((entry) => ({
        kind: entry.kind,
        namespace: entry.namespace,
        name: entry.name,
        waiting: entry.open.size,
        oldestWaitMs: oldestWaitMs(entry, now),
      }));
  }

  #told(wanted: (entry: Entry) => boolean): [namespace: string, ContentionTold][] {
    const now = performance.now();
    const first = Math.floor(now / SLICE_MS) - SLICES;
    const all: [string, ContentionTold][] = [];
    for (const entry of this.#entries.values()) {
      if (!wanted(entry)) continue;
      const slices = entry.slices.filter(({ number }) => number > first);
      const waits = sum(slices, 'waits');
      const conflicts = sum(slices, 'conflicts');
      if (entry.open.size === 0 && waits === 0 && conflicts === 0) continue;
      const told = {
        kind: entry.kind,
        scopeKind: entry.scopeKind,
        name: entry.name,
        waiting: entry.open.size,
        oldestWaitMs: oldestWaitMs(entry, now),
        waits,
        waitMs: Math.round(sum(slices, 'waitMs')),
        longestWaitMs: Math.round(Math.max(0, ...slices.map(({ longestWaitMs }) => longestWaitMs))),
        conflicts,
      };
      all.push([entry.namespace, told]);
    }
    return all;
  }

  #entry(kind: Kind, path: string): Entry {
    let entry = this.#entries.get(path);
    if (entry === undefined) {
      const directory = parentOf(path);
      const namespace = baseName(parentOf(directory));
      const scopeKind = baseName(directory).replace(/(-line|-room)?s$/, '');
      entry = { kind, namespace, scopeKind, name: baseName(path), open: new Set(), slices: [] };
    } else {
      this.#entries.delete(path);
    }
    this.#entries.set(path, entry);
    if (this.#entries.size > NAMES_MAX) this.#forgetOne();
    return entry;
  }

  #forgetOne(): void {
    for (const [key, { open }] of this.#entries) {
      if (open.size > 0) continue;
      this.#entries.delete(key);
      return;
    }
  }
}

/**
 * The most contended names.
 * @param told by each process
 * @param shows whether whoever asks may see what has this name
 */
export function topContention(
  told: readonly (readonly ContentionTold[])[],
  count: number,
  shows: (kind: string, name: string) => boolean,
): Contended[] {
  const together = new Map<string, ContentionTold>();
  for (const one of told.flat()) {
    if (!shows(one.scopeKind, one.name)) continue;
    const key = `${one.scopeKind}/${one.name}`;
    const before = together.get(key);
    together.set(key, before === undefined ? one : merged(before, one));
  }
  return [...together.values()]
    .map(({ scopeKind: _, waitMs, ...rest }) => ({
      ...rest,
      meanWaitMs: rest.waits === 0 ? 0 : Math.round(waitMs / rest.waits),
    }))
    .sort(mostContendedFirst)
    .slice(0, count);
}

type Compared = Pick<ContentionTold, 'waiting' | 'oldestWaitMs' | 'longestWaitMs' | 'conflicts'>;

/** Those with the longest lines, then the longest waits, then the most conflicts. */
export function mostContendedFirst(a: Compared, b: Compared): number {
  const longest = (one: Compared): number => Math.max(one.oldestWaitMs, one.longestWaitMs);
  return b.waiting - a.waiting || longest(b) - longest(a) || b.conflicts - a.conflicts;
}

/** Those that wait are in the order of their beginnings. */
function oldestWaitMs({ open }: Entry, now: number): number {
  const [oldest] = open;
  return oldest === undefined ? 0 : Math.round(now - oldest.since);
}

function merged(a: ContentionTold, b: ContentionTold): ContentionTold {
  return {
    ...a,
    waiting: a.waiting + b.waiting,
    oldestWaitMs: Math.max(a.oldestWaitMs, b.oldestWaitMs),
    waits: a.waits + b.waits,
    waitMs: a.waitMs + b.waitMs,
    longestWaitMs: Math.max(a.longestWaitMs, b.longestWaitMs),
    conflicts: a.conflicts + b.conflicts,
  };
}

function currentSlice(entry: Entry): Slice {
  const number = Math.floor(performance.now() / SLICE_MS);
  let slice = entry.slices.at(-1);
  if (slice?.number !== number) {
    slice = { number, waits: 0, waitMs: 0, longestWaitMs: 0, conflicts: 0 };
    entry.slices.push(slice);
    if (entry.slices.length > SLICES) entry.slices.shift();
  }
  return slice;
}

function sum(slices: readonly Slice[], key: 'waits' | 'waitMs' | 'conflicts'): number {
  return slices.reduce((total, slice) => total + slice[key], 0);
}
