/** Asks a holder to let go; with a grace period, takes the hold away when that has passed. */
import type { JSX } from 'preact';
import { LISTS, type Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import type { Entered, Field } from '../parts/field.js';
import { Intervention } from '../parts/intervention.js';
import type { Holder, LineKind } from '../state/lines.js';
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
    hint: 'Up to a week. After this time the hold is broken; if it is empty, the holder is only asked.',
    type: 'number',
    pattern: '[0-9]{0,6}',
  },
  { name: 'reason', label: 'Reason', hint: 'The holder is told.', type: 'text', maxLength: REASON_MAX },
];

interface RevokeProps {
  readonly kind: LineKind;
  readonly name: string;
  readonly holder: Holder;
  readonly waiting: number;
}

export function Revoke({ kind, name, holder, waiting }: RevokeProps): JSX.Element {
  const { namespace } = caller();
  // An external hold has no id: the request means all who hold it, so nothing may be taken away by it.
  const mayBreak = holder.holdId !== null;
  const act = async ({ grace = '', reason = '' }: Entered): Promise<string> => {
    const body: Schemas['RevokeRequest'] = {
      ...(holder.holdId === null ? {} : { holdId: holder.holdId }),
      ...(grace === '' || !mayBreak ? {} : { graceMs: Number(grace) * 1_000 }),
      ...(reason === '' ? {} : { reason }),
    };
    const path = [LISTS[kind], name, 'revoke'];
    const { breakAt } = await requestJson<Schemas['Revoked']>(caller(), { method: 'POST', path, body });
    const asked = `${nameOf(holder)} has been asked to release ${kind} ${name}`;
    return breakAt === undefined ? `${asked}.` : `${asked}; its hold is broken at ${breakAt}.`;
  };
  return (
    <Intervention
      id={`revoke ${kind} ${namespace} ${name}`}
      button="Revoke…"
      title={`Revoke ${kind} ${name}`}
      confirm="Revoke"
      fields={mayBreak ? FIELDS : FIELDS.filter((field) => field.name !== 'grace')}
      initial={mayBreak ? { grace: '30' } : {}}
      consequence={({ grace = '' }) => (
        <>
          <p>
            <strong>{fullNameOf(holder)}</strong> is asked to release {kind} <code>{name}</code> in namespace{' '}
            <code>{namespace}</code>.
          </p>
          <p>{whatFollows(holder, grace, waiting)}</p>
        </>
      )}
      act={act}
    />
  );
}

function whatFollows({ external, reservation }: Holder, grace: string, waiting: number): string {
  const next = waiting === 0 ? 'Nobody waits for it.' : `Then the first of ${quantity(waiting, 'waiter')} is next.`;
  if (external)
    return `It is not a client of Postern and cannot be named alone: all who hold this are asked, and nobody is forced. ${next}`;
  if (grace === '' && reservation !== undefined)
    return `It is a reservation: nobody is there to be asked, and nothing is taken away without a time. ${next}`;
  if (grace === '') return `It may go on for as long as it likes: nothing is taken away. ${next}`;
  const after = Number(grace) === 0 ? 'At once' : `After ${duration(Number(grace) * 1_000)}`;
  return `${after}, its hold is broken if it still has it, whatever it is doing. ${next}`;
}
