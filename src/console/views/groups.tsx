/** Groups: who is there, with the value of each member. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { SmallTable } from '../parts/small-table.js';
import { nameColumn, numberColumn, ToldListing } from '../parts/told-listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { number } from '../words/quantity.js';
import { bounded } from '../words/value.js';
import { GroupMessages } from './group-messages.js';

type Group = Schemas['Group'];

const VALUE_SHOWN_MAX = 200;

const COLUMNS: readonly Column<Group>[] = [
  nameColumn('group'),
  numberColumn('Members', ({ memberCount }) => memberCount),
];

export function GroupsView(): JSX.Element {
  return (
    <ToldListing
      kind="group"
      columns={COLUMNS}
      empty="There is no group in this namespace."
      panel={(name) => <GroupPanel name={name} />}
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
