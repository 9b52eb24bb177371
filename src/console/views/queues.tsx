/** Queues: how deep each is, and since when its oldest message lies there. */
import type { JSX } from 'preact';
import type { Schemas } from '../api/contract.js';
import { Age } from '../parts/age.js';
import type { Column } from '../parts/list.js';
import { nameColumn, numberColumn, ToldListing } from '../parts/told-listing.js';
import { QueuePanel } from './queue.js';

type Queue = Schemas['Queue'];

const COLUMNS: readonly Column<Queue>[] = [
  nameColumn('queue'),
  numberColumn('Depth', ({ depth }) => depth),
  { ...numberColumn('Claimed', ({ claimed }) => claimed), isMinor: true },
  { ...numberColumn('Delayed', ({ delayed }) => delayed), isMinor: true },
  {
    title: 'Oldest',
    width: '6.5rem',
    cell: ({ oldestEnqueuedAt }) => <Age since={oldestEnqueuedAt} />,
    order: (one, other) => ((one.oldestEnqueuedAt ?? '~') < (other.oldestEnqueuedAt ?? '~') ? 1 : -1),
    isNumber: true,
  },
  { ...numberColumn('Consumers waiting', ({ consumersWaiting }) => consumersWaiting), width: '10rem', isMinor: true },
];

export function QueuesView(): JSX.Element {
  return (
    <ToldListing
      kind="queue"
      columns={COLUMNS}
      empty="There is no queue in this namespace."
      panel={(name) => <QueuePanel name={name} />}
    />
  );
}
