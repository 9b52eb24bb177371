/** Two-phase commits: what is open, what was decided, and how each participant voted. */
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
import { Failed, Loading } from '../parts/states.js';
import { Value } from '../parts/value.js';
import { useFetched } from '../state/fetched.js';
import { route } from '../state/route.js';
import { caller } from '../state/session.js';
import { useSurvey } from '../state/survey.js';
import { number, quantity } from '../words/quantity.js';
import { visible } from '../words/visible.js';

type Summary = Schemas['TransactionSummary'];

const EVERY_MS = 3_000;

const COLUMNS: readonly Column<Summary>[] = [
  {
    title: 'Transaction',
    width: 'minmax(5rem, 2fr)',
    cell: ({ transactionId }) => <ThingLink kind="transaction" name={transactionId} />,
  },
  {
    title: 'State',
    width: '7rem',
    cell: ({ state }) => <span class={`tag tag-${state}`}>{state}</span>,
    order: (one, other) => (one.state < other.state ? -1 : 1),
  },
  { title: 'Participants', width: '7rem', cell: (one) => number(one.participantCount), isNumber: true, isMinor: true },
  { title: 'Begun by', width: 'minmax(6rem, 1fr)', cell: ({ principal }) => principal, isMinor: true },
  {
    title: 'Age',
    width: '6.5rem',
    cell: ({ createdAt }) => <Age since={createdAt} />,
    order: (one, other) => (one.createdAt < other.createdAt ? 1 : -1),
    isNumber: true,
  },
];

export function TransactionsView(): JSX.Element {
  const { value, error } = useSurvey<Summary>('transactions');
  const { chosen } = route.value;
  return (
    <Listing
      title="Transactions"
      what="transactions"
      rows={value?.items ?? []}
      columns={COLUMNS}
      keyOf={({ transactionId }) => transactionId}
      textsOf={({ transactionId, state, principal }) => [transactionId, state, principal]}
      hint="id, state or principal"
      isRead={value !== undefined}
      error={error}
      empty="There is no transaction in this namespace."
      chosen={chosen?.name}
      panel={
        chosen === undefined ? null : (
          <Panel kind="transaction" name={chosen.name}>
            <TransactionBody id={chosen.name} />
          </Panel>
        )
      }
    />
  );
}

function TransactionBody({ id }: { id: string }): JSX.Element {
  const { namespace } = caller();
  const { value, error, again } = useFetched<Schemas['Transaction']>(
    `${namespace} ${id}`,
    (signal) => requestJson(caller(), { path: ['transactions', id], signal }),
    EVERY_MS,
  );
  if (error !== undefined) return <Failed error={error} what="this transaction" />;
  if (value === undefined) return <Loading what="this transaction" />;
  const { state, reason, votes, data } = value;
  return (
    <>
      <Facts
        facts={[
          ['State', reason === undefined ? state : `${state} (${visible(reason)})`],
          ['Begun by', value.principal],
          ['Age', <Age since={value.createdAt} />],
          ['Deadline', value.deadline],
          value.note !== undefined && ['Note', visible(value.note)],
        ]}
      />
      {data == null ? null : <Value value={data} label="Data" />}
      <SmallTable
        caption="Participants"
        heads={['Participant', 'Vote']}
        rows={votes.map(({ participant, vote, joined }) => [
          <span class="name">{participant}</span>,
          vote ?? (joined === true ? 'has joined' : 'has not voted'),
        ])}
      />
      {state === 'open' ? <Abort id={id} votes={votes} onAborted={again} /> : null}
    </>
  );
}

interface AbortProps {
  readonly id: string;
  readonly votes: Schemas['Transaction']['votes'];
  readonly onAborted: () => void;
}

function Abort({ id, votes, onAborted }: AbortProps): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`abort ${namespace} ${id}`}
      button="Abort…"
      title="Abort this transaction"
      confirm="Abort transaction"
      fields={[{ name: 'reason', label: 'Reason', hint: 'The participants are told.', type: 'text', maxLength: 200 }]}
      consequence={() => (
        <p>
          The transaction <code>{id}</code> in namespace <code>{namespace}</code> is aborted for all{' '}
          <strong>{quantity(votes.length, 'participant')}</strong>, unless it has been committed meanwhile.
        </p>
      )}
      act={async ({ reason = '' }) => {
        const body = reason === '' ? {} : { reason };
        const path = ['transactions', id, 'abort'];
        const { state } = await requestJson<Schemas['Transaction']>(caller(), { method: 'POST', path, body });
        onAborted();
        return state === 'aborted' ? 'The transaction is aborted.' : `It was too late: the transaction is ${state}.`;
      }}
    />
  );
}
