/** The list of a view with its filter, in whichever state it is: being read, empty, refused, or with rows. */
import type { ComponentChildren, JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Filter, matches } from './filter.js';
import { List, type ListProps } from './list.js';
import { Page } from './page.js';
import { Empty, Failed, Loading } from './states.js';
import { key } from '../state/session.js';

export interface ListingProps<R> extends Omit<ListProps<R>, 'label'> {
  readonly title: string;
  /** What it lists, as in "Reading …" and "No …". */
  readonly what: string;
  /** What a row is found by. */
  readonly textsOf: (row: R) => readonly (string | null | undefined)[];
  readonly hint: string;
  readonly isRead: boolean;
  /** Why nothing can be read. */
  readonly error?: unknown;
  readonly empty: ComponentChildren;
  readonly tools?: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly panel?: ComponentChildren;
}

export function Listing<R>(props: ListingProps<R>): JSX.Element {
  const { title, what, rows, textsOf, hint, isRead, error, empty, tools, note, panel, ...list } = props;
  const [filter, setFilter] = useState('');
  const found = useMemo(
    () => (filter === '' ? rows : rows.filter((row) => matches(filter, ...textsOf(row)))),
    [rows, filter],
  );
  const box = <Filter text={filter} onText={setFilter} shown={found.length} of={rows.length} hint={hint} />;
  return (
    <Page
      title={title}
      panel={panel}
      tools={
        <>
          {tools}
          {box}
        </>
      }
    >
      {note}
      {found.length > 0 && error !== undefined ? <Failed error={error} what={`more of the ${what}`} /> : null}
      {found.length > 0 ? (
        <List label={title} rows={found} {...list} />
      ) : error !== undefined ? (
        <Failed error={error} what={what} />
      ) : !isRead ? (
        <Loading what={what} />
      ) : (
        <Empty>
          {rows.length > 0 ? `None of ${rows.length} ${what} contains “${filter}”.` : empty}
          {key.value === '' ? '' : ' A key with rights to some names is shown no others.'}
        </Empty>
      )}
    </Page>
  );
}
