/** Pools: how many members are free, who has which, and which of them are given to nobody. */
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age, Until } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty, Failed, Loading } from '../parts/states.js';
import { nameColumn, numberColumn, ToldListing } from '../parts/told-listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { useFetched } from '../state/fetched.js';
import { membersOf } from '../state/pool-members.js';
import { caller } from '../state/session.js';
import { nameOf } from '../words/holder.js';
import { number } from '../words/quantity.js';
import { DeletePool, DrainMember } from './pool-actions.js';

type Pool = Schemas['Pool'];

/** Of a pool that changes all the time its members, which may be large, are read no more often. */
const EVERY_MS = 1_000;

const COLUMNS: readonly Column<Pool>[] = [
  nameColumn('pool'),
  { ...numberColumn('Members', ({ total }) => total), isMinor: true },
  numberColumn('Free', ({ free }) => free),
  numberColumn('Held', ({ heldCount }) => heldCount),
  { ...numberColumn('Quarantined', ({ restingCount }) => restingCount), isMinor: true },
  { ...numberColumn('Waiting', ({ waiterCount }) => waiterCount), isMinor: true },
];

export function PoolsView(): JSX.Element {
  return (
    <ToldListing
      kind="pool"
      columns={COLUMNS}
      empty="There is no pool in this namespace."
      panel={(name) => <PoolPanel name={name} />}
    />
  );
}

function PoolPanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel kind="pool" name={name} absent="There is no such pool." show={(pool) => <PoolBody pool={pool} />} />
  );
}

function PoolBody({ pool }: { pool: Pool }): JSX.Element {
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
      {pool.of === undefined ? <ListedMembers key={pool.name} told={pool} /> : <Members pool={pool} />}
      <div class="interventions">
        <DeletePool pool={pool} />
      </div>
    </>
  );
}

/** The stream does not tell which members are listed: they are read again after each change that it tells of. */
function ListedMembers({ told }: { told: Pool }): JSX.Element {
  const { name } = told;
  const read = useRef<{ after: Pool; pool: Pool } | undefined>(undefined);
  const { value, error } = useFetched<Pool>(
    `${caller().namespace} pool ${name}`,
    async (signal) => {
      if (read.current?.after !== told)
        read.current = { after: told, pool: await requestJson<Pool>(caller(), { path: ['pools', name], signal }) };
      return read.current.pool;
    },
    EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="the members" />;
  return value === undefined ? <Loading what="the members" /> : <Members pool={value} />;
}

function Members({ pool }: { pool: Pool }): JSX.Element {
  const { members, left } = membersOf(pool);
  if (members.length === 0) return <Empty>All members are free.</Empty>;
  return (
    <>
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
      {left === 0 ? null : <p class="soft">{number(left)} more members are not shown.</p>}
    </>
  );
}
