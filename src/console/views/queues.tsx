/** Queues: how deep each is, and since when its oldest message lies there. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Schemas } from '../api/contract.js';
import { Age } from '../parts/age.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { number } from '../words/quantity.js';
import { QueuePanel } from './queue.js';

type Queue = Schemas['Queue'];

const COLUMNS: readonly Column<Queue>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ name }) => <ThingLink kind="queue" name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  counted('Depth', ({ depth }) => depth),
  { ...counted('Claimed', ({ claimed }) => claimed), isMinor: true },
  { ...counted('Delayed', ({ delayed }) => delayed), isMinor: true },
  {
    title: 'Oldest',
    width: '6.5rem',
    cell: ({ oldestEnqueuedAt }) => <Age since={oldestEnqueuedAt} />,
    order: (one, other) => ((one.oldestEnqueuedAt ?? '~') < (other.oldestEnqueuedAt ?? '~') ? 1 : -1),
    isNumber: true,
  },
  { ...counted('Consumers waiting', ({ consumersWaiting }) => consumersWaiting), width: '10rem', isMinor: true },
];

function counted(title: string, count: (queue: Queue) => number): Column<Queue> {
  return {
    title,
    width: '5.5rem',
    cell: (queue) => number(count(queue)),
    order: (one, other) => count(one) - count(other),
    isNumber: true,
  };
}

export function QueuesView(): JSX.Element {
  const revision = revisionOf('queue');
  const rows = useMemo(() => [...thingsOf('queue').values()].sort((a, b) => (a.name < b.name ? -1 : 1)), [revision]);
  const { chosen } = route.value;
  return (
    <Listing
      title="Queues"
      what="queues"
      rows={rows}
      columns={COLUMNS}
      keyOf={({ name }) => name}
      textsOf={({ name }) => [name]}
      hint="name"
      isRead={isTold.value}
      error={unreadable.value.get('queue')}
      empty="There is no queue in this namespace."
      chosen={chosen?.name}
      panel={chosen === undefined ? null : <QueuePanel name={chosen.name} />}
    />
  );
}
