/** What can be done to a pool: drain a member, let it be given again, delete the pool. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Intervention } from '../parts/intervention.js';
import { caller } from '../state/session.js';
import { fullNameOf } from '../words/holder.js';

type Pool = Schemas['Pool'];

interface OfMember {
  readonly pool: Pool;
  readonly member: Schemas['PoolMember'];
  readonly holder: Schemas['HeldMember'] | undefined;
}

/** Drains it, or, if it is drained, lets it be given again. */
export function DrainMember({ pool: { name }, member: { id, drain = false }, holder }: OfMember): JSX.Element {
  const { namespace } = caller();
  const verb = drain ? 'Undrain' : 'Drain';
  return (
    <Intervention
      key={verb}
      id={`drain ${namespace} ${name}`}
      button={`${verb}…`}
      title={`${verb} ${id}`}
      confirm={`${verb} member`}
      consequence={() => (
        <p>
          The member <code>{id}</code> of the pool <code>{name}</code> in namespace <code>{namespace}</code>{' '}
          {drain ? 'is given to those who ask again.' : 'is given to nobody any more.'}
          {drain || holder === undefined ? '' : ` ${fullNameOf(holder)} keeps it until that hold ends.`} The pool is
          written with its members as they are read just before; a change that another makes between is undone.
        </p>
      )}
      act={async () => {
        if (!(await write(name, id, !drain))) return `${name} no longer lists ${id}: nothing was done.`;
        return `The member ${id} of ${name} is ${drain ? 'given again' : 'given to nobody any more'}.`;
      }}
    />
  );
}

/**
 * With the members that there are now: the pool may have been written since it was shown. A pool has no condition for
 * its writes (its ETag changes with each hold), so the dialog says what may be undone.
 * @returns false: it no longer lists that member, and nothing is written
 */
async function write(name: string, id: string, drain: boolean): Promise<boolean> {
  const path = ['pools', name];
  const { members, quarantineMs } = await requestJson<Pool>(caller(), { path });
  if (members?.some((member) => member.id === id) !== true) return false;
  const body: Schemas['PutPoolRequest'] = {
    members: members.map((member) => (member.id === id ? { ...member, drain } : member)),
    quarantineMs,
  };
  await requestJson(caller(), { method: 'PUT', path, body });
  return true;
}

export function DeletePool({ pool: { name } }: { pool: Pool }): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`delete pool ${namespace} ${name}`}
      button="Delete…"
      title={`Delete ${name}`}
      confirm="Delete pool"
      consequence={() => (
        <p>
          The pool <code>{name}</code> in namespace <code>{namespace}</code> is gone, and whoever waits for a member is
          told so. As long as a member is held, this is refused.
        </p>
      )}
      act={async () => {
        await requestJson(caller(), { method: 'DELETE', path: ['pools', name] });
        return `The pool ${name} is deleted.`;
      }}
    />
  );
}
