/** Groups: who is there, with the value of each member. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink, ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { SmallTable } from '../parts/small-table.js';
import { ToldPanel } from '../parts/told-panel.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { number } from '../words/quantity.js';
import { bounded } from '../words/value.js';
import { GroupMessages } from './group-messages.js';

type Group = Schemas['Group'];

const VALUE_SHOWN_MAX = 200;

const COLUMNS: readonly Column<Group>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ name }) => <ThingLink kind="group" name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  {
    title: 'Members',
    width: '6rem',
    cell: ({ memberCount }) => number(memberCount),
    order: (one, other) => one.memberCount - other.memberCount,
    isNumber: true,
  },
];

export function GroupsView(): JSX.Element {
  const revision = revisionOf('group');
  const rows = useMemo(() => [...thingsOf('group').values()].sort((a, b) => (a.name < b.name ? -1 : 1)), [revision]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Groups"
      what="groups"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ name }) => name}
      textsOf={({ name }) => [name]}
      hint="name"
      isRead={isTold.value}
      error={unreadable.value.get('group')}
      empty="There is no group in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <GroupPanel name={chosen.name} />}
    />
  );
}

function GroupPanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel
      kind="group"
      name={name}
      absent="Nobody is in it."
      show={({ memberCount, members }) => (
        <>
          <Facts facts={[['Members', number(memberCount)]]} />
          <SmallTable
            caption={memberCount > members.length ? `The first ${members.length} members` : 'Members'}
            heads={['Member', 'Value', 'Since', 'Lease']}
            rows={members.map(({ member, value, since, leaseId }) => [
              <span class="name">{member}</span>,
              <span class="name">{bounded(JSON.stringify(value) ?? '', VALUE_SHOWN_MAX)}</span>,
              <Age since={since} />,
              <LeaseLink leaseId={leaseId} />,
            ])}
          />
        </>
      )}
    >
      <GroupMessages name={name} />
    </ToldPanel>
  );
}
