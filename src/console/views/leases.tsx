/** Who is alive, and what each holds. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { Intervention } from '../parts/intervention.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { Panel } from '../parts/panel.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty, Failed, Loading } from '../parts/states.js';
import { Value } from '../parts/value.js';
import { useFetched } from '../state/fetched.js';
import { route } from '../state/route.js';
import { caller } from '../state/session.js';
import { useSurvey } from '../state/survey.js';
import { duration } from '../words/age.js';
import { nameOf, fullNameOf } from '../words/holder.js';
import { quantity } from '../words/quantity.js';
import { visible } from '../words/visible.js';

type Lease = Schemas['LeaseSummary'];

const EVERY_MS = 3_000;
const NAMED_MAX = 6;

const COLUMNS: readonly Column<Lease>[] = [
  {
    title: 'Label',
    width: 'minmax(5rem, 1.5fr)',
    cell: (lease) => <ThingLink kind="lease" name={lease.leaseId} text={nameOf(lease)} />,
    order: (one, other) => (nameOf(one) < nameOf(other) ? -1 : 1),
  },
  { title: 'Principal', width: 'minmax(6rem, 1fr)', cell: ({ principal }) => principal },
  { title: 'Lease', width: '19rem', cell: ({ leaseId }) => <span class="name soft">{leaseId}</span>, isMinor: true },
  {
    title: 'TTL',
    width: '5rem',
    cell: ({ ttlMs }) => duration(ttlMs),
    order: (one, other) => one.ttlMs - other.ttlMs,
    isNumber: true,
    isMinor: true,
  },
  {
    title: 'Age',
    width: '6.5rem',
    cell: ({ since }) => <Age since={since} />,
    order: (one, other) => (one.since < other.since ? 1 : -1),
    isNumber: true,
  },
];

export function LeasesView(): JSX.Element {
  const { value, error } = useSurvey<Lease>('leases');
  const { chosen } = route.value;
  return (
    <Listing
      title="Leases"
      what="leases"
      rows={value?.items ?? []}
      columns={COLUMNS}
      keyOf={({ leaseId }) => leaseId}
      textsOf={({ leaseId, label, principal }) => [leaseId, label, principal]}
      hint="label, principal or id"
      isRead={value !== undefined}
      error={error}
      empty="Nobody has a lease in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <LeasePanel leaseId={chosen.name} />}
    />
  );
}

function LeasePanel({ leaseId }: { leaseId: string }): JSX.Element {
  return (
    <Panel kind="lease" name={leaseId}>
      <LeaseBody leaseId={leaseId} />
    </Panel>
  );
}

function LeaseBody({ leaseId }: { leaseId: string }): JSX.Element {
  const { namespace } = caller();
  const { value, error, again } = useFetched<Schemas['Lease']>(
    `${namespace} ${leaseId}`,
    (signal) => requestJson(caller(), { path: ['leases', leaseId], signal }),
    EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="this lease" />;
  if (value === undefined) return <Loading what="this lease" />;
  const { holds, metadata } = value;
  return (
    <>
      <Facts
        facts={[
          ['Label', value.label === '' ? '–' : visible(value.label)],
          ['Principal', value.principal],
          ['TTL', duration(value.ttlMs)],
          ['Age', <Age since={value.since} />],
        ]}
      />
      {Object.keys(metadata).length === 0 ? null : <Value value={metadata} label="Metadata" />}
      {holds.length === 0 ? (
        <Empty>It holds nothing, and waits for nothing.</Empty>
      ) : (
        <SmallTable
          caption="What it holds and waits for"
          heads={['Kind', 'Name', 'State', 'Since']}
          rows={holds.map(({ kind, name, held, since }) => [
            kind,
            <ThingLink kind={kind} name={name} />,
            held ? 'holds' : 'waits',
            <Age since={since} />,
          ])}
        />
      )}
      <EndLease lease={value} onEnded={again} />
    </>
  );
}

function EndLease({ lease, onEnded }: { lease: Schemas['Lease']; onEnded: () => void }): JSX.Element {
  const { leaseId, holds } = lease;
  const { namespace } = caller();
  const held = holds.filter((hold) => hold.held);
  const named = held.slice(0, NAMED_MAX).map(({ kind, name }) => `${kind} ${name}`);
  const more = held.length > NAMED_MAX ? ` and ${quantity(held.length - NAMED_MAX, 'other')}` : '';
  return (
    <Intervention
      id={`end lease ${namespace} ${leaseId}`}
      button="End lease…"
      title="End this lease"
      confirm="End lease"
      consequence={() => (
        <>
          <p>
            The lease of <strong>{fullNameOf(lease)}</strong> ends now, in namespace <code>{namespace}</code>. Its
            requests are answered with 410 from then on.
          </p>
          <p>
            {held.length === 0
              ? 'It holds nothing.'
              : `It loses ${named.join(', ')}${more} at once, whatever it is doing.`}{' '}
            {held.length === holds.length ? '' : `It leaves ${quantity(holds.length - held.length, 'line')}.`}
          </p>
        </>
      )}
      act={async () => {
        await requestJson(caller(), { method: 'DELETE', path: ['leases', leaseId] });
        onEnded();
        return `The lease of ${nameOf(lease)} has ended.`;
      }}
    />
  );
}
