/**
 * A list that may be long: only the rows that are seen, and a few beside them, are in the page. Rows have one height,
 * so that the place of each follows from its number.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

/** As in lists.css. */
const ROW_PX = 34;
/** The first row that is drawn is a multiple of this: most steps of scrolling draw nothing. */
const STEP = 8;
/** Elements of rows that are kept: a few screens. */
const KEPT_MAX = 400;
/** Where there is less room, minor columns are left out. */
const ROOMY_PX = 760;

export interface Column<R> {
  readonly title: string;
  readonly cell: (row: R) => ComponentChildren;
  /** As in `grid-template-columns`. */
  readonly width: string;
  readonly order?: (one: R, other: R) => number;
  readonly isNumber?: true;
  /** Left out where there is little room. */
  readonly isMinor?: true;
}

export interface ListProps<R> {
  readonly label: string;
  readonly rows: readonly R[];
  readonly columns: readonly Column<R>[];
  readonly keyOf: (row: R) => string;
  /** The row that is looked at closely, by its key. */
  readonly chosen?: string | undefined;
}

interface Sorting {
  readonly title: string;
  readonly isDown: boolean;
}

export function List<R>({ label, rows, columns, keyOf, chosen }: ListProps<R>): JSX.Element {
  const [sorting, setSorting] = useState<Sorting>();
  const sorted = useMemo(() => sortedBy(rows, columns, sorting), [rows, columns, sorting]);
  const scroller = useRef<HTMLDivElement>(null);
  const { first, count, isRoomy } = useWindow(scroller, sorted.length);
  const shown = isRoomy ? columns : columns.filter(({ isMinor }) => isMinor !== true);
  const template = { gridTemplateColumns: shown.map(({ width }) => width).join(' ') };
  const drawn = useRows({ columns, isRoomy, chosen }, (row, at) => (
    <div
      role="row"
      key={keyOf(row)}
      aria-rowindex={at + 2}
      class={keyOf(row) === chosen ? 'row row-chosen' : 'row'}
      style={{ ...template, transform: `translateY(${at * ROW_PX}px)` }}
    >
      {shown.map(({ title, cell, isNumber }) => (
        <div role="cell" key={title} class={isNumber ? 'cell number' : 'cell'}>
          {cell(row)}
        </div>
      ))}
    </div>
  ));
  return (
    <div class="list" ref={scroller} role="region" aria-label={label} tabIndex={0}>
      <div role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
        <div role="rowgroup" class="list-head">
          <div role="row" aria-rowindex={1} class="row" style={template}>
            {shown.map((column) => (
              <Head key={column.title} column={column} sorting={sorting} onSort={setSorting} />
            ))}
          </div>
        </div>
        <div role="rowgroup" class="list-body" style={{ height: `${sorted.length * ROW_PX}px` }}>
          {sorted.slice(first, first + count).map((row, index) => drawn(row, first + index))}
        </div>
      </div>
    </div>
  );
}

type Draw<R> = (row: R, at: number) => JSX.Element;

/**
 * A row that is drawn as before is the very same element, which is not compared again: a step of scrolling costs as
 * much as the rows that come.
 */
function useRows<R>(look: Pick<ListProps<R>, 'columns' | 'chosen'> & { isRoomy: boolean }, draw: Draw<R>): Draw<R> {
  const kept = useRef(new Map<R, { at: number; element: JSX.Element }>());
  const before = useRef(look);
  const isOther =
    before.current.columns !== look.columns ||
    before.current.chosen !== look.chosen ||
    before.current.isRoomy !== look.isRoomy;
  before.current = look;
  if (isOther || kept.current.size > KEPT_MAX) kept.current.clear();
  return (row, at) => {
    const known = kept.current.get(row);
    if (known?.at === at) return known.element;
    const element = draw(row, at);
    kept.current.set(row, { at, element });
    return element;
  };
}

interface HeadProps<R> {
  readonly column: Column<R>;
  readonly sorting: Sorting | undefined;
  readonly onSort: (sorting: Sorting) => void;
}

function Head<R>({ column: { title, order, isNumber }, sorting, onSort }: HeadProps<R>): JSX.Element {
  const isSorted = sorting?.title === title;
  const direction = sorting?.isDown === true ? 'descending' : 'ascending';
  // The first press shows most of a number, and the beginning of the alphabet.
  const next = { title, isDown: isSorted ? !sorting.isDown : isNumber === true };
  return (
    <div role="columnheader" class={isNumber ? 'cell number' : 'cell'} aria-sort={isSorted ? direction : 'none'}>
      {order === undefined ? (
        title
      ) : (
        <button type="button" class="sort" onClick={() => onSort(next)}>
          {title}
          <span aria-hidden="true">{isSorted ? (sorting.isDown ? ' ↓' : ' ↑') : ''}</span>
        </button>
      )}
    </div>
  );
}

function sortedBy<R>(rows: readonly R[], columns: readonly Column<R>[], sorting: Sorting | undefined): readonly R[] {
  const order = columns.find(({ title }) => title === sorting?.title)?.order;
  if (order === undefined || sorting === undefined) return rows;
  const sign = sorting.isDown ? -1 : 1;
  return [...rows].sort((one, other) => sign * order(one, other));
}

/** Which rows are to be drawn, and with which columns. */
interface Window {
  readonly first: number;
  readonly count: number;
  readonly isRoomy: boolean;
}

function useWindow(scroller: { readonly current: HTMLDivElement | null }, length: number): Window {
  const [at, setAt] = useState({ step: 0, height: 0, isRoomy: true });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const look = (): void => {
      const step = Math.floor(element.scrollTop / ROW_PX / STEP);
      const height = element.clientHeight;
      const isRoomy = element.clientWidth >= ROOMY_PX;
      setAt((before) =>
        before.step === step && before.height === height && before.isRoomy === isRoomy
          ? before
          : { step, height, isRoomy },
      );
    };
    const resized = new ResizeObserver(look);
    resized.observe(element);
    element.addEventListener('scroll', look, { passive: true });
    look();
    return () => {
      resized.disconnect();
      element.removeEventListener('scroll', look);
    };
  }, [scroller]);
  const count = Math.ceil(at.height / ROW_PX) + 3 * STEP;
  const first = Math.max(0, Math.min((at.step - 1) * STEP, length - count));
  return { first, count, isRoomy: at.isRoomy };
}
