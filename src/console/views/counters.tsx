/** Counters and their values. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import type { Column } from '../parts/list.js';
import { nameColumn, numberColumn, ToldListing } from '../parts/told-listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { caller } from '../state/session.js';
import { number } from '../words/quantity.js';

type Counter = Schemas['Counter'];

const COLUMNS: readonly Column<Counter>[] = [
  nameColumn('counter'),
  numberColumn('Value', ({ value }) => value, 'minmax(8rem, 1fr)'),
];

export function CountersView(): JSX.Element {
  return (
    <ToldListing
      kind="counter"
      columns={COLUMNS}
      empty="There is no counter in this namespace."
      panel={(name) => <CounterPanel name={name} />}
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
