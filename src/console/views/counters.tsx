/** Counters and their values. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { caller } from '../state/session.js';
import { number } from '../words/quantity.js';

type Counter = Schemas['Counter'];

const COLUMNS: readonly Column<Counter>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ name }) => <ThingLink kind="counter" name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  {
    title: 'Value',
    width: 'minmax(8rem, 1fr)',
    cell: ({ value }) => number(value),
    order: (one, other) => one.value - other.value,
    isNumber: true,
  },
];

export function CountersView(): JSX.Element {
  const revision = revisionOf('counter');
  const rows = useMemo(() => [...thingsOf('counter').values()].sort((a, b) => (a.name < b.name ? -1 : 1)), [revision]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Counters"
      what="counters"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ name }) => name}
      textsOf={({ name }) => [name]}
      hint="name"
      isRead={isTold.value}
      error={unreadable.value.get('counter')}
      empty="There is no counter in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <CounterPanel name={chosen.name} />}
    />
  );
}

function CounterPanel({ name }: { name: string }): JSX.Element {
  const { namespace } = caller();
  return (
    <ToldPanel
      kind="counter"
      name={name}
      absent="There is no such counter: it counts as 0."
      show={({ value }) => (
        <>
          <Facts facts={[['Value', number(value)]]} />
          <Intervention
            id={`delete counter ${namespace} ${name}`}
            button="Delete…"
            title={`Delete ${name}`}
            confirm="Delete counter"
            consequence={() => (
              <p>
                The counter <code>{name}</code> in namespace <code>{namespace}</code>, which stands at{' '}
                <strong>{number(value)}</strong>, is as if it had never been: everybody who reads or watches it finds 0.
              </p>
            )}
            act={async () => {
              await requestJson(caller(), { method: 'DELETE', path: ['counters', name] });
              return `Counter ${name} is deleted.`;
            }}
          />
        </>
      )}
    />
  );
}
