/** Runs: how the last occurrences of each are, who has or had the last attempt, and what it noted. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import { LeaseLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty } from '../parts/states.js';
import { nameColumn, ToldListing } from '../parts/told-listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { caller } from '../state/session.js';
import { number } from '../words/quantity.js';
import { visible } from '../words/visible.js';

type Run = Schemas['Run'];
type Occurrence = Schemas['Occurrence'];

const COLUMNS: readonly Column<Run>[] = [
  nameColumn('run'),
  {
    title: 'Last',
    width: '6rem',
    cell: (run) => ofLast(run, ({ state }) => <State state={state} />),
    order: (one, other) => ((lastOf(one)?.state ?? '') < (lastOf(other)?.state ?? '') ? -1 : 1),
  },
  {
    title: 'Occurrence',
    width: 'minmax(8rem, 1fr)',
    cell: (run) => ofLast(run, ({ occurrence }) => <span class="name">{occurrence}</span>),
    isMinor: true,
  },
  {
    title: 'By',
    width: 'minmax(6rem, 1fr)',
    cell: (run) => ofLast(run, ({ by }) => visible(by.label) || '–'),
    isMinor: true,
  },
  {
    title: 'Started',
    width: '6.5rem',
    cell: (run) => ofLast(run, ({ startedAt }) => <Age since={startedAt} />),
    order: (one, other) => ((lastOf(one)?.startedAt ?? '') < (lastOf(other)?.startedAt ?? '') ? 1 : -1),
    isNumber: true,
  },
];

export function RunsView(): JSX.Element {
  return (
    <ToldListing
      kind="run"
      columns={COLUMNS}
      textsOf={(run) => [run.name, lastOf(run)?.state, lastOf(run)?.occurrence, lastOf(run)?.by.label]}
      hint="name, state, occurrence or label"
      empty="No run is remembered in this namespace."
      panel={(name) => <RunPanel name={name} />}
    />
  );
}

const FORGOTTEN = 'Nothing is remembered of it.';

function RunPanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel
      kind="run"
      name={name}
      absent={FORGOTTEN}
      show={({ occurrences }) =>
        occurrences.length === 0 ? <Empty>{FORGOTTEN}</Empty> : <Occurrences name={name} occurrences={occurrences} />
      }
    />
  );
}

function Occurrences({ name, occurrences }: Pick<Run, 'name' | 'occurrences'>): JSX.Element {
  return (
    <>
      <Facts facts={counted(occurrences)} />
      <SmallTable
        caption="Occurrences, the last one first"
        heads={['Occurrence', 'State', 'Attempt', 'By', 'Lease', 'Started', 'Note', 'Action']}
        keys={occurrences.map(({ occurrence }) => occurrence)}
        rows={occurrences.map((one) => [
          <span class="name">{one.occurrence}</span>,
          <State state={one.state} />,
          `${one.attempt} of ${one.maxAttempts}`,
          <span class="name">{visible(one.by.label) || '–'}</span>,
          <LeaseLink leaseId={one.by.leaseId} />,
          <Age since={one.startedAt} />,
          <span class="name">{visible(one.note ?? '')}</span>,
          one.state === 'running' ? '' : <Forget name={name} occurrence={one} />,
        ])}
      />
    </>
  );
}

function State({ state }: Pick<Occurrence, 'state'>): JSX.Element {
  return <span class={`tag tag-${state}`}>{state}</span>;
}

function Forget({ name, occurrence: { occurrence, state } }: { name: string; occurrence: Occurrence }): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`forget ${namespace} ${name} ${occurrence}`}
      button="Forget…"
      title={`Forget ${occurrence}`}
      confirm="Forget occurrence"
      consequence={() => (
        <p>
          The occurrence <code>{occurrence}</code> of <code>{name}</code> in namespace <code>{namespace}</code>, which
          is <strong>{state}</strong>, is as if it had never been: the next who asks for it does the work, as attempt 1.
        </p>
      )}
      act={async () => {
        await requestJson(caller(), { method: 'POST', path: ['runs', name, 'forget'], body: { occurrence } });
        return `The occurrence ${occurrence} of ${name} is forgotten.`;
      }}
    />
  );
}

function counted(occurrences: readonly Occurrence[]): readonly (readonly [string, string])[] {
  const states = ['running', 'open', 'failed', 'done'] as const;
  return states.map((state) => [state, number(occurrences.filter((one) => one.state === state).length)]);
}

function lastOf({ occurrences }: Run): Occurrence | undefined {
  return occurrences[0];
}

/** Everything of a run may have been forgotten. */
function ofLast(run: Run, show: (last: Occurrence) => JSX.Element | string): JSX.Element | string {
  const last = lastOf(run);
  return last === undefined ? '–' : show(last);
}
