/** What the overview shows of the last minutes; it is gathered whatever is shown, so that the plot has no gaps. */
import { effect, signal } from '@preact/signals';
import { isTold, revisionOf, thingsOf } from './live.js';
import { namespace } from './route.js';
import { History } from './history.js';
import type { HeldState, Schemas } from '../api/contract.js';

const SAMPLE_MS = 1_000;
/** Five minutes. */
const SAMPLES = 300;
const LINES = ['lock', 'rwlock', 'semaphore'] as const;

const history = new History(SAMPLES);
export const columns = signal(history.columns);

/** Where requests wait at this replica, as last read; undefined until then, and where it may not be read. */
export const contended = signal<readonly Schemas['ContendedName'][] | undefined>(undefined);

/** How many hold something, and how many things of the kinds that have lines are held. */
export function countHeld(): number {
  const inLines = LINES.reduce((sum, kind) => {
    let held = 0;
    for (const { holders } of (thingsOf(kind) as ReadonlyMap<string, HeldState>).values()) held += holders.length;
    return sum + held;
  }, 0);
  let led = 0;
  for (const { leader } of thingsOf('election').values()) if (leader !== null) led += 1;
  return inLines + led;
}

export function countWaiting(): number {
  return (contended.value ?? []).reduce((sum, { waiting }) => sum + waiting, 0);
}

export function beginHistory(): void {
  effect(() => {
    void namespace.value;
    history.clear();
    contended.value = undefined;
  });
  let [held, revision] = [0, -1];
  setInterval(() => {
    if (!isTold.peek()) return;
    const now = [...LINES, 'election' as const].reduce((sum, kind) => sum + revisionOf(kind), 0);
    if (now !== revision) held = countHeld();
    revision = now;
    history.add({ at: Math.round(Date.now() / 1_000), held, waiting: countWaiting() });
    if (!document.hidden) columns.value = history.columns;
  }, SAMPLE_MS);
}
