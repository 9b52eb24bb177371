/** Groups: who is there, with the value of each member. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink, ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { Panel } from '../parts/panel.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty, Loading } from '../parts/states.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { number } from '../words/quantity.js';
import { bounded } from '../words/value.js';

type Group = Schemas['Group'];

const VALUE_SHOWN_MAX = 200;

const COLUMNS: readonly Column<Group>[] = [
  {
    title: 'Name',
    width: 'minmax(9rem, 2fr)',
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
  const group = thingsOf('group').get(name);
  return (
    <Panel kind="group" name={name}>
      {group === undefined ? (
        isTold.value ? (
          <Empty>Nobody is in it.</Empty>
        ) : (
          <Loading what={name} />
        )
      ) : (
        <>
          <Facts facts={[['Members', number(group.memberCount)]]} />
          <SmallTable
            caption={group.memberCount > group.members.length ? `The first ${group.members.length} members` : 'Members'}
            heads={['Member', 'Value', 'Since', 'Lease']}
            rows={group.members.map(({ member, value, since, leaseId }) => [
              <span class="name">{member}</span>,
              <span class="name">{bounded(JSON.stringify(value) ?? '', VALUE_SHOWN_MAX)}</span>,
              <Age since={since} />,
              <LeaseLink leaseId={leaseId} />,
            ])}
          />
        </>
      )}
    </Panel>
  );
}
