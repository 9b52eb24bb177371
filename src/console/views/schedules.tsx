/** Schedules: when a message is pushed to which queue, what was pushed last, and what was missed or refused. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { Age, Until } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty } from '../parts/states.js';
import { nameColumn, ToldListing } from '../parts/told-listing.js';
import { ToldPanel } from '../parts/told-panel.js';
import { Value } from '../parts/value.js';
import { number } from '../words/quantity.js';
import { DeleteSchedule, PauseSchedule } from './schedule-actions.js';

type Schedule = Schemas['Schedule'];

const COLUMNS: readonly Column<Schedule>[] = [
  nameColumn('schedule'),
  {
    title: 'State',
    width: '6rem',
    cell: (schedule) => <State schedule={schedule} />,
    order: (one, other) => (stateOf(one) < stateOf(other) ? -1 : 1),
  },
  {
    title: 'Cron',
    width: 'minmax(7rem, 1fr)',
    cell: ({ cron }) => <span class="name">{cron}</span>,
    isMinor: true,
  },
  {
    title: 'Queue',
    width: 'minmax(6rem, 1fr)',
    cell: ({ queue }) => <span class="name">{queue}</span>,
    isMinor: true,
  },
  {
    title: 'Last push',
    width: '6.5rem',
    cell: ({ fired }) => <Age since={fired?.at} />,
    order: (one, other) => ((one.fired?.at ?? '') < (other.fired?.at ?? '') ? 1 : -1),
    isNumber: true,
    isMinor: true,
  },
  {
    title: 'Next',
    width: '6.5rem',
    cell: ({ dueAt }) => <Until at={dueAt} />,
    order: (one, other) => ((one.dueAt ?? '~') < (other.dueAt ?? '~') ? 1 : -1),
    isNumber: true,
  },
];

export function SchedulesView(): JSX.Element {
  return (
    <ToldListing
      kind="schedule"
      columns={COLUMNS}
      textsOf={(schedule) => [schedule.name, stateOf(schedule), schedule.queue, schedule.cron]}
      hint="name, state, queue or cron"
      empty="There is no schedule in this namespace."
      panel={(name) => <SchedulePanel name={name} />}
    />
  );
}

function SchedulePanel({ name }: { name: string }): JSX.Element {
  return (
    <ToldPanel
      kind="schedule"
      name={name}
      absent="There is no such schedule."
      show={(schedule) => <ScheduleBody schedule={schedule} />}
    />
  );
}

interface OfSchedule {
  readonly schedule: Schedule;
}

function ScheduleBody({ schedule }: OfSchedule): JSX.Element {
  const { cron, timeZone, queue, misfire, to, fired, missed, refused, next } = schedule;
  return (
    <>
      <Facts
        facts={[
          ['State', <State schedule={schedule} />],
          ['Cron', <span class="name">{cron}</span>],
          ['Time zone', timeZone],
          ['To the queue', <ThingLink kind="queue" name={queue} />],
          to.priority !== undefined && ['Priority', number(to.priority)],
          ['Last push', fired === undefined ? 'none yet' : <Age since={fired.at} />],
          fired !== undefined && ['It was due', fired.occurrence],
          ['Missed', number(missed?.count ?? 0)],
          missed !== undefined && ['Missed last', missed.occurrence],
          ['If missed', misfire === 'once' ? 'the latest is made up for' : 'passed over'],
          ['Written by', schedule.principal],
        ]}
      />
      {refused === undefined ? null : (
        <div class="state state-failed">
          <strong>The queue refuses what was due at {refused.occurrence}.</strong>
          <p>{refused.detail}</p>
          <p class="soft">
            It is tried again until it is missed; last <Age since={refused.at} /> ago.
          </p>
        </div>
      )}
      {next.length === 0 ? (
        <Empty>Nothing is due.</Empty>
      ) : (
        <SmallTable
          caption="The next times"
          heads={['Due at', 'That is']}
          rows={next.map((at) => [<span class="name">{at}</span>, <Until at={at} />])}
        />
      )}
      <Value value={to.body} label="Body of each message" />
      <div class="interventions">
        <PauseSchedule schedule={schedule} />
        <DeleteSchedule schedule={schedule} />
      </div>
    </>
  );
}

function State({ schedule }: OfSchedule): JSX.Element {
  const state = stateOf(schedule);
  return <span class={`tag tag-${state}`}>{state}</span>;
}

function stateOf({ paused, refused }: Schedule): 'paused' | 'refused' | 'active' {
  return paused ? 'paused' : refused === undefined ? 'active' : 'refused';
}
