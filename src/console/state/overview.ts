/**
 * What the overview shows of the last minutes. What the stream tells is gathered whatever is shown; who waits is asked
 * for by the views that show it, and has a gap for the time of others.
 */
import { effect, signal } from '@preact/signals';
import { late } from './fetched.js';
import { connection, isTold, mayRead, revisionOf, thingsOf } from './live.js';
import { namespace } from './route.js';
import { key } from './session.js';
import { History } from './history.js';
import { LINE_KINDS } from './lines.js';
import type { HeldState, Schemas } from '../api/contract.js';

const SAMPLE_MS = 1_000;
/** Five minutes. */
const SAMPLES = 300;
const LINES = LINE_KINDS.filter((kind) => kind !== 'election');

const history = new History(SAMPLES);
export const columns = signal(history.columns);

/** Where requests wait at this replica; undefined while nothing asks, and where it cannot be read. */
export const contended = signal<readonly Schemas['ContendedName'][] | undefined>(undefined);

/** How many hold something; null where that is not told, or may not be read. */
export function countHeld(): number | null {
  if (!isTold.value || !LINE_KINDS.some(mayRead)) return null;
  const inLines = LINES.reduce((sum, kind) => {
    let held = 0;
    for (const { holders } of (thingsOf(kind) as ReadonlyMap<string, HeldState>).values()) held += holders.length;
    return sum + held;
  }, 0);
  let led = 0;
  for (const { leader } of thingsOf('election').values()) if (leader !== null) led += 1;
  return inLines + led;
}

/** How many requests wait at this replica; null where that is not known. */
export function countWaiting(): number | null {
  return contended.value?.reduce((sum, { waiting }) => sum + waiting, 0) ?? null;
}

export function beginHistory(): void {
  effect(() => {
    void namespace.value;
    void key.value;
    history.clear();
    columns.value = history.columns;
    contended.value = undefined;
  });
  let held: number | null = null;
  let revision = -1;
  setInterval(() => {
    if (!isTold.peek()) return;
    const now = LINE_KINDS.reduce((sum, kind) => sum + revisionOf(kind), 0);
    if (now !== revision) held = countHeld();
    revision = now;
    const { state } = connection.peek();
    history.add({
      at: Math.round(Date.now() / 1_000),
      held: state === 'lost' || state === 'stopped' ? null : held,
      waiting: document.hidden || late.peek() > 0 ? null : countWaiting(),
    });
    if (!document.hidden) columns.value = history.columns;
  }, SAMPLE_MS);
}
