/** The frame of the page: where one is, how the gateway is, and the view. */
import type { JSX } from 'preact';
import { Banner } from './parts/banner.js';
import { Bar } from './parts/bar.js';
import { Navigation } from './parts/navigation.js';
import { SignIn } from './parts/sign-in.js';
import { notice } from './state/notice.js';
import { namespace, route, type View } from './state/route.js';
import { key, refusedKey } from './state/session.js';
import { BarriersView } from './views/barriers.js';
import { ConfigView } from './views/config.js';
import { ContentionView } from './views/contention.js';
import { CountersView } from './views/counters.js';
import { GroupsView } from './views/groups.js';
import { LeasesView } from './views/leases.js';
import { LinesView } from './views/lines.js';
import { OverviewView } from './views/overview.js';
import { PoolsView } from './views/pools.js';
import { QueuesView } from './views/queues.js';
import { RunsView } from './views/runs.js';
import { SchedulesView } from './views/schedules.js';
import { TransactionsView } from './views/transactions.js';

const SHOWN: Readonly<Record<View, () => JSX.Element>> = {
  overview: OverviewView,
  lines: LinesView,
  pools: PoolsView,
  leases: LeasesView,
  queues: QueuesView,
  config: ConfigView,
  groups: GroupsView,
  barriers: BarriersView,
  counters: CountersView,
  runs: RunsView,
  schedules: SchedulesView,
  transactions: TransactionsView,
  contention: ContentionView,
};

export function App(): JSX.Element {
  const isIn = refusedKey.value === undefined;
  const Shown = SHOWN[route.value.view];
  return (
    <div class="shell">
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        Skip to the content
      </button>
      <Bar />
      {isIn ? <Navigation /> : null}
      <main id="main" tabIndex={-1}>
        {isIn ? (
          <>
            <Banner />
            {/* What a view remembers belongs to one namespace and one key. */}
            <Shown key={`${route.value.view} ${namespace.value} ${key.value}`} />
          </>
        ) : (
          <SignIn />
        )}
      </main>
      <div class="notice" role="status">
        {notice.value === '' ? null : <p>{notice.value}</p>}
      </div>
    </div>
  );
}
