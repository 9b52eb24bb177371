/** The views, with the number of things in those that the stream counts. */
import type { JSX } from 'preact';
import type { Kind } from '../api/contract.js';
import { isTold, mayRead, thingsOf } from '../state/live.js';
import { hrefOf, route, VIEWS, type View } from '../state/route.js';
import { number } from '../words/quantity.js';

const COUNTED: Partial<Record<View, readonly Kind[]>> = {
  lines: ['lock', 'rwlock', 'semaphore', 'election'],
  pools: ['pool'],
  queues: ['queue'],
  config: ['config'],
  groups: ['group'],
  counters: ['counter'],
  runs: ['run'],
  schedules: ['schedule'],
};

export function Navigation(): JSX.Element {
  return (
    <nav class="navigation" aria-label="Views">
      <ul>
        {(Object.keys(VIEWS) as View[]).map((view) => (
          <li key={view}>
            <a href={hrefOf(view)} aria-current={route.value.view === view ? 'page' : undefined}>
              {VIEWS[view]}
              <Count kinds={COUNTED[view]} />
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Count({ kinds }: { kinds: readonly Kind[] | undefined }): JSX.Element | null {
  if (kinds === undefined || !isTold.value || !kinds.some(mayRead)) return null;
  const count = kinds.reduce((sum, kind) => sum + thingsOf(kind).size, 0);
  return <span class="count">{number(count)}</span>;
}
