/** Makes a candidate the leader; what becomes of those before it, it says. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import type { Entered, Field } from '../parts/field.js';
import { Intervention } from '../parts/intervention.js';
import { caller } from '../state/session.js';
import { duration } from '../words/age.js';
import { fullNameOf, nameOf } from '../words/holder.js';
import { quantity } from '../words/quantity.js';

/** As in the contract. */
const REASON_MAX = 200;

const FIELDS: readonly Field[] = [
  {
    name: 'grace',
    label: 'Grace, in seconds',
    hint: 'Up to a week. After this time the leader is deposed, if it has not resigned; if it is empty, at once.',
    type: 'number',
    pattern: '[0-9]{0,6}',
  },
  { name: 'reason', label: 'Reason', hint: 'The leader is told.', type: 'text', maxLength: REASON_MAX },
];

interface TransferProps {
  readonly name: string;
  readonly candidate: Pick<Schemas['Candidate'], 'label' | 'principal' | 'leaseId' | 'external' | 'position'>;
  readonly candidateId: string;
}

export function Transfer({ name, candidate, candidateId }: TransferProps): JSX.Element {
  const { namespace } = caller();
  const act = async ({ grace = '', reason = '' }: Entered): Promise<string> => {
    const body: Schemas['TransferRequest'] = {
      candidateId,
      graceMs: Number(grace) * 1_000,
      ...(reason === '' ? {} : { reason }),
    };
    const path = ['elections', name, 'transfer'];
    const { breakAt } = await requestJson<Schemas['Transferred']>(caller(), { method: 'POST', path, body });
    const who = nameOf(candidate);
    return breakAt === undefined
      ? `${who} leads ${name}.`
      : `${who} is the next to lead ${name}; the leader is deposed at ${breakAt}.`;
  };
  return (
    <Intervention
      id={`transfer election ${namespace} ${name}`}
      button="Make leader…"
      title={`Transfer election ${name}`}
      confirm="Transfer"
      fields={FIELDS}
      initial={{ grace: '30' }}
      consequence={({ grace = '' }) => (
        <>
          <p>
            <strong>{fullNameOf(candidate)}</strong> is to lead election <code>{name}</code> in namespace{' '}
            <code>{namespace}</code>, and the present leader is asked to resign.
          </p>
          <p>{whatFollows(grace, candidate.position - 1)}</p>
        </>
      )}
      act={act}
    />
  );
}

function whatFollows(grace: string, between: number): string {
  const after = grace === '' || Number(grace) === 0 ? 'At once' : `After ${duration(Number(grace) * 1_000)}`;
  const others =
    between === 0
      ? ''
      : ` It overtakes ${quantity(between, 'candidate')}: they stand no more, and come back behind all others.`;
  return `${after}, the leader is deposed if it still leads. If the candidate has gone by then, the leader stays.${others}`;
}
