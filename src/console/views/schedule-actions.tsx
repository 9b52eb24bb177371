/** What can be done to a schedule: pause it, let it go on, delete it. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Intervention } from '../parts/intervention.js';
import { caller } from '../state/session.js';

type Schedule = Schemas['Schedule'];

interface OfSchedule {
  readonly schedule: Schedule;
}

/** Pauses it, or, if it is paused, lets it go on. */
export function PauseSchedule({ schedule: { name, queue, paused } }: OfSchedule): JSX.Element {
  const { namespace } = caller();
  const verb = paused ? 'Resume' : 'Pause';
  return (
    <Intervention
      key={verb}
      id={`pause ${namespace} ${name}`}
      button={`${verb}…`}
      title={`${verb} ${name}`}
      confirm={`${verb} schedule`}
      consequence={() => (
        <p>
          The schedule <code>{name}</code> in namespace <code>{namespace}</code>{' '}
          {paused
            ? 'begins anew: the first occurrence from now on is pushed to '
            : 'stays as it is, and nothing more is pushed to '}
          <code>{queue}</code>
          {paused ? '. Those while it was paused are not made up for.' : ' until it is resumed.'} It is written under
          the principal of this key.
        </p>
      )}
      act={async () => {
        await write(name, !paused);
        return `The schedule ${name} is ${paused ? 'resumed' : 'paused'}.`;
      }}
    />
  );
}

/** With what it is set to now: it may have been written since it was shown. */
async function write(name: string, paused: boolean): Promise<void> {
  const path = ['schedules', name];
  const { cron, timeZone, to, misfire } = await requestJson<Schedule>(caller(), { path });
  const body: Schemas['PutScheduleRequest'] = { cron, timeZone, to, misfire, paused };
  await requestJson(caller(), { method: 'PUT', path, body });
}

export function DeleteSchedule({ schedule: { name, queue } }: OfSchedule): JSX.Element {
  const { namespace } = caller();
  return (
    <Intervention
      id={`delete schedule ${namespace} ${name}`}
      button="Delete…"
      title={`Delete ${name}`}
      confirm="Delete schedule"
      consequence={() => (
        <p>
          The schedule <code>{name}</code> in namespace <code>{namespace}</code> is gone, and nothing more is pushed to{' '}
          <code>{queue}</code>. Messages that were pushed stay there.
        </p>
      )}
      act={async () => {
        await requestJson(caller(), { method: 'DELETE', path: ['schedules', name] });
        return `The schedule ${name} is deleted.`;
      }}
    />
  );
}
