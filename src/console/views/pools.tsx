/** Pools: how many members are free, who has which, and which of them are given to nobody. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { Age, Until } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink, ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty } from '../parts/states.js';
import { ToldPanel } from '../parts/told-panel.js';
import { membersOf, type ShownMember } from '../state/pool-members.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { nameOf } from '../words/holder.js';
import { number } from '../words/quantity.js';
import { DeletePool, DrainMember } from './pool-actions.js';

type Pool = Schemas['Pool'];

const COLUMNS: readonly Column<Pool>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ name }) => <ThingLink kind="pool" name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  count('Members', ({ total }) => total),
  count('Free', ({ free }) => free),
  count('Held', ({ heldCount }) => heldCount),
  { ...count('Quarantined', ({ restingCount }) => restingCount), isMinor: true },
  count('Waiting', ({ waiterCount }) => waiterCount),
];

function count(title: string, of: (pool: Pool) => number): Column<Pool> {
  return {
    title,
    width: '6.5rem',
    cell: (pool) => number(of(pool)),
    order: (one, other) => of(other) - of(one),
    isNumber: true,
  };
}

export function PoolsView(): JSX.Element {
  const revision = revisionOf('pool');
  const rows = useMemo(() => [...thingsOf('pool').values()].sort((a, b) => (a.name < b.name ? -1 : 1)), [revision]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Pools"
      what="pools"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ name }) => name}
      textsOf={({ name }) => [name]}
      hint="name"
      isRead={isTold.value}
      error={unreadable.value.get('pool')}
      empty="There is no pool in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <PoolPanel name={chosen.name} />}
    />
  );
}

function PoolPanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel kind="pool" name={name} absent="There is no such pool." show={(pool) => <PoolBody pool={pool} />} />
  );
}

function PoolBody({ pool }: { pool: Pool }): JSX.Element {
  const { members, left } = membersOf(pool);
  return (
    <>
      <Facts
        facts={[
          ['Members', number(pool.total)],
          ['Free', number(pool.free)],
          ['Held', number(pool.heldCount)],
          ['Quarantined', number(pool.restingCount)],
          ['Waiting', number(pool.waiterCount)],
          ['Quarantine', `${number(pool.quarantineMs)} ms`],
        ]}
      />
      {members.length === 0 ? <Empty>All members are free.</Empty> : <Members pool={pool} members={members} />}
      {left === 0 ? null : <p class="soft">{number(left)} more members are not shown.</p>}
      <div class="interventions">
        <DeletePool pool={pool} />
      </div>
    </>
  );
}

function Members({ pool, members }: { pool: Pool; members: readonly ShownMember[] }): JSX.Element {
  return (
    <SmallTable
      caption="Members"
      heads={['Member', 'State', 'Holder', 'Lease', 'Held for', 'Free again', 'Action']}
      keys={members.map(({ id }) => id)}
      rows={members.map(({ id, state, held, until, listed }) => [
        <span class="name">{id}</span>,
        state === undefined ? <span class="soft">–</span> : <span class={`tag tag-${state}`}>{state}</span>,
        <span class="name">{held === undefined ? '–' : nameOf(held)}</span>,
        <LeaseLink leaseId={held?.leaseId} />,
        <Age since={held?.since} />,
        <Until at={until} />,
        listed === undefined ? '' : <DrainMember pool={pool} member={listed} holder={held} />,
      ])}
    />
  );
}
