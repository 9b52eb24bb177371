/** Where requests wait, and how long they waited within the last minutes. */
import type { JSX } from 'preact';
import { TITLES, type Schemas } from '../api/contract.js';
import { ThingLink } from '../parts/link.js';
import type { Column } from '../parts/list.js';
import { Listing } from '../parts/listing.js';
import { useContention } from '../state/contention.js';
import { duration } from '../words/age.js';
import { number } from '../words/quantity.js';

type Contended = Schemas['ContendedName'];

const COLUMNS: readonly Column<Contended>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ kind, name }) => <ThingLink kind={kind} name={name} />,
    order: (one, other) => (one.name < other.name ? -1 : 1),
  },
  { title: 'Kind', width: '8.5rem', cell: ({ kind }) => TITLES[kind], isMinor: true },
  counted('Waiting', '5rem', ({ waiting }) => waiting),
  timed('Oldest', '6rem', ({ oldestWaitMs }) => oldestWaitMs),
  { ...counted('Waits', '5rem', ({ waits }) => waits), isMinor: true },
  { ...timed('Mean', '6rem', ({ meanWaitMs }) => meanWaitMs), isMinor: true },
  { ...timed('Longest', '6rem', ({ longestWaitMs }) => longestWaitMs), isMinor: true },
  { ...counted('Conflicts', '6rem', ({ conflicts }) => conflicts), isMinor: true },
];

function counted(title: string, width: string, count: (one: Contended) => number): Column<Contended> {
  return {
    title,
    width,
    cell: (one) => number(count(one)),
    order: (one, other) => count(one) - count(other),
    isNumber: true,
  };
}

function timed(title: string, width: string, ms: (one: Contended) => number): Column<Contended> {
  return { ...counted(title, width, ms), cell: (one) => (ms(one) === 0 ? '–' : duration(ms(one))) };
}

export function ContentionView(): JSX.Element {
  const { value, error } = useContention();
  return (
    <Listing
      title="Contention"
      what="contended names"
      rows={value?.items ?? []}
      columns={COLUMNS}
      keyOf={({ kind, name }) => `${kind}:${name}`}
      textsOf={({ name, kind }) => [name, kind]}
      hint="name or kind"
      isRead={value !== undefined}
      error={error}
      empty="No request has waited at this replica within the last minutes."
      note={
        <p class="note">
          What this replica knows of the last {duration(value?.windowMs ?? 300_000)}; each replica knows of its own
          requests.
        </p>
      }
    />
  );
}
