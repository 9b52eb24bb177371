/** The list of all things of a kind that the stream tells of, by name, and the columns that most of them have. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { LISTS, type Kind, type States } from '../api/contract.js';
import { isTold, revisionOf, thingsOf, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { number } from '../words/quantity.js';
import { ThingLink } from './link.js';
import type { Column } from './list.js';
import { Listing, type ListingProps } from './listing.js';

type Named = { readonly name: string };
/** Kinds whose things are told with their names. */
export type NamedKind = { [K in Kind]: States[K] extends Named ? K : never }[Kind];

interface ToldListingProps<K extends NamedKind>
  extends
    Pick<ListingProps<States[K]>, 'columns' | 'empty'>,
    Partial<Pick<ListingProps<States[K]>, 'textsOf' | 'hint'>> {
  readonly kind: K;
  /** What is shown beside the list of the one that is chosen. */
  readonly panel: (name: string) => JSX.Element;
}

export function ToldListing<K extends NamedKind>(props: ToldListingProps<K>): JSX.Element {
  const { kind, columns, empty, panel, textsOf = ({ name }) => [name], hint = 'name' } = props;
  const revision = revisionOf(kind);
  const rows = useMemo(() => [...thingsOf(kind).values()].sort(byName), [kind, revision]);
  const { chosen } = route.value;
  const what = LISTS[kind];
  return (
    <Listing
      title={`${what.charAt(0).toUpperCase()}${what.slice(1)}`}
      what={what}
      rows={rows}
      columns={columns}
      keyOf={({ name }) => name}
      textsOf={textsOf}
      hint={hint}
      isRead={isTold.value}
      error={unreadable.value.get(kind)}
      empty={empty}
      chosen={chosen?.name}
      panel={chosen === undefined ? null : panel(chosen.name)}
    />
  );
}

function byName(one: Named, other: Named): number {
  return one.name < other.name ? -1 : 1;
}

export function nameColumn(kind: Kind): Column<Named> {
  return {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ name }) => <ThingLink kind={kind} name={name} />,
    order: byName,
  };
}

export function numberColumn<R>(title: string, of: (row: R) => number, width = '6.5rem'): Column<R> {
  return { title, width, cell: (row) => number(of(row)), order: (one, other) => of(one) - of(other), isNumber: true };
}
