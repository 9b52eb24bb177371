/** Barriers, at which callers wait until they are lifted, and double barriers, which a fixed number enter together. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { TITLES, type Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import { LeaseLink, ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { Panel } from '../parts/panel.js';
import { SmallTable } from '../parts/small-table.js';
import { Failed, Loading } from '../parts/states.js';
import { ToldPanel } from '../parts/told-panel.js';
import { useFetched } from '../state/fetched.js';
import { useSurvey } from '../state/survey.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { caller } from '../state/session.js';
import { number } from '../words/quantity.js';

const EVERY_MS = 2_000;

interface Row {
  readonly kind: 'barrier' | 'double-barrier';
  readonly name: string;
  readonly state: string;
  readonly since: string | null | undefined;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ kind, name }) => <ThingLink kind={kind} name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  { title: 'Kind', width: '8.5rem', cell: ({ kind }) => TITLES[kind], isMinor: true },
  { title: 'State', width: 'minmax(6rem, 1fr)', cell: ({ state }) => state },
  { title: 'Since', width: '6.5rem', cell: ({ since }) => <Age since={since} />, isNumber: true },
];

export function BarriersView(): JSX.Element {
  const { value, error } = useSurvey<Schemas['DoubleBarrierSummary']>('double-barriers');
  const revision = revisionOf('barrier');
  const rows = useMemo(() => rowsOf(value?.items ?? []), [revision, value]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Barriers"
      what="barriers"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ kind, name }) => `${kind}:${name}`}
      textsOf={({ name }) => [name]}
      hint="name"
      isRead={isTold.value && value !== undefined}
      error={unreadable.value.get('barrier') ?? error}
      empty="There is no barrier in this namespace."
      chosen={chosen === undefined ? undefined : `${chosen.kind}:${chosen.name}`}
      panel={chosen === undefined ? null : <BarrierPanel kind={chosen.kind} name={chosen.name} />}
    />
  );
}

function rowsOf(doubles: readonly Schemas['DoubleBarrierSummary'][]): Row[] {
  const single = [...thingsOf('barrier').values()].map(({ name, raised, since }): Row => ({
    kind: 'barrier',
    name,
    state: raised ? 'raised' : 'lifted',
    since,
  }));
  const double = doubles.map(({ name, memberCount, size, entered, since }): Row => {
    const state = `${number(memberCount)} of ${size ?? '?'} ${entered ? 'inside' : 'have come'}`;
    return { kind: 'double-barrier', name, state, since };
  });
  return [...single, ...double].sort((one, other) => (one.name < other.name ? -1 : 1));
}

function BarrierPanel({ kind, name }: { kind: string; name: string }): JSX.Element {
  return kind === 'double-barrier' ? (
    <Panel kind={kind} name={name}>
      <DoubleBarrierBody name={name} />
    </Panel>
  ) : (
    <ToldPanel
      kind="barrier"
      name={name}
      absent="It is not raised."
      show={(barrier) => <BarrierBody key={`${name} ${barrier.since}`} barrier={barrier} />}
    />
  );
}

function BarrierBody({ barrier }: { barrier: Schemas['Barrier'] }): JSX.Element {
  const { name, raised, since, principal } = barrier;
  const { namespace } = caller();
  return (
    <>
      <Facts
        facts={[
          ['State', raised ? 'raised' : 'lifted'],
          ['Since', <Age since={since} />],
          ['Raised by', principal],
        ]}
      />
      {raised ? (
        <Intervention
          id={`lift ${namespace} ${name}`}
          button="Lift…"
          title={`Lift ${name}`}
          confirm="Lift barrier"
          consequence={() => (
            <p>
              <strong>Everybody who waits</strong> at the barrier <code>{name}</code> in namespace{' '}
              <code>{namespace}</code> continues at once, and nobody waits there until it is raised again.
            </p>
          )}
          act={async () => {
            await requestJson(caller(), { method: 'DELETE', path: ['barriers', name] });
            return `Barrier ${name} is lifted.`;
          }}
        />
      ) : null}
    </>
  );
}

function DoubleBarrierBody({ name }: { name: string }): JSX.Element {
  const { namespace } = caller();
  const { value: barrier, error } = useFetched<Schemas['DoubleBarrier']>(
    `${namespace} ${name}`,
    (signal) => requestJson(caller(), { path: ['double-barriers', name], signal }),
    EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="this barrier" />;
  if (barrier === undefined) return <Loading what={name} />;
  return (
    <>
      <Facts
        facts={[
          ['Size', barrier.size === null ? '–' : number(barrier.size)],
          ['Members', number(barrier.memberCount)],
          ['State', barrier.entered ? 'entered' : 'gathering'],
        ]}
      />
      <SmallTable
        caption="Members"
        heads={['Member', 'State', 'Since', 'Lease']}
        rows={barrier.members.map(({ member, entered, since, leaseId }) => [
          <span class="name">{member}</span>,
          entered ? 'inside' : 'waits',
          <Age since={since} />,
          <LeaseLink leaseId={leaseId} />,
        ])}
      />
    </>
  );
}
