/** Locks, read-write locks, semaphores and elections: who holds each, since when, and how many wait. */
import type { JSX } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { TITLES } from '../api/contract.js';
import { Age } from '../parts/age.js';
import { ThingLink } from '../parts/link.js';
import { Listing } from '../parts/listing.js';
import type { Column } from '../parts/list.js';
import { isTold, unreadable } from '../state/live.js';
import { route } from '../state/route.js';
import { LINE_KINDS, useLines, type Line, type LineKind } from '../state/lines.js';
import { messageOf } from '../parts/states.js';
import { nameOf } from '../words/holder.js';
import { number, quantity } from '../words/quantity.js';
import { LinePanel } from './line.js';

const byText = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

const COLUMNS: readonly Column<Line>[] = [
  {
    title: 'Name',
    width: 'minmax(5rem, 2fr)',
    cell: ({ kind, name }) => <ThingLink kind={kind} name={name} />,
    order: (one, other) => byText(one.name, other.name),
  },
  {
    title: 'Kind',
    width: '8.5rem',
    cell: ({ kind }) => <span class="soft">{TITLES[kind]}</span>,
    order: (one, other) => byText(one.kind, other.kind),
    isMinor: true,
  },
  {
    title: 'Holder',
    width: 'minmax(6rem, 1.4fr)',
    cell: ({ holders }) => (holders.length === 0 ? <span class="soft">nobody</span> : holdersShown(holders)),
    order: (one, other) => byText(holdersShown(one.holders), holdersShown(other.holders)),
  },
  {
    title: 'Held for',
    width: '6.5rem',
    cell: ({ holders }) => <Age since={holders[0]?.since} />,
    order: (one, other) => byText(other.holders[0]?.since ?? '~', one.holders[0]?.since ?? '~'),
    isNumber: true,
    isMinor: true,
  },
  {
    title: 'Waiting',
    width: '5rem',
    cell: ({ waiting }) => (waiting === undefined ? <span class="soft">–</span> : number(waiting)),
    order: (one, other) => (one.waiting ?? -1) - (other.waiting ?? -1),
    isNumber: true,
  },
  {
    title: 'Oldest wait',
    width: '7rem',
    cell: ({ oldestWaitSince }) => <Age since={oldestWaitSince} />,
    order: (one, other) => byText(other.oldestWaitSince ?? '~', one.oldestWaitSince ?? '~'),
    isNumber: true,
    isMinor: true,
  },
];

function holdersShown(holders: Line['holders']): string {
  const [first] = holders;
  if (first === undefined) return '';
  return holders.length === 1 ? nameOf(first) : `${nameOf(first)} and ${quantity(holders.length - 1, 'other')}`;
}

export function LinesView(): JSX.Element {
  const [kind, setKind] = useState<LineKind | ''>('');
  const { lines, error } = useLines();
  const shown = useMemo(() => (kind === '' ? lines : lines.filter((line) => line.kind === kind)), [lines, kind]);
  const { chosen } = route.value;
  const refused = LINE_KINDS.filter((one) => unreadable.value.has(one));
  const all = refused.length === LINE_KINDS.length ? unreadable.value.get('lock') : undefined;
  return (
    <Listing
      title="Lines"
      what="lines"
      rows={shown}
      columns={COLUMNS}
      keyOf={({ kind: of, name }) => `${of}:${name}`}
      textsOf={({ name, holders }) => [name, ...holders.flatMap(({ label, principal }) => [label, principal])]}
      hint="name or holder"
      isRead={isTold.value}
      error={all}
      empty="Nobody holds a lock, a semaphore or an office in this namespace, and nobody waits for one."
      tools={<KindChooser kind={kind} onKind={setKind} />}
      note={
        refused.length > 0 && all === undefined ? (
          <p class="note">This key may not read {refused.map((one) => TITLES[one]?.toLowerCase()).join(', ')}.</p>
        ) : error === undefined ? null : (
          <p class="note">Who waits could not be read: {messageOf(error)}</p>
        )
      }
      chosen={chosen === undefined ? undefined : `${chosen.kind}:${chosen.name}`}
      panel={chosen === undefined ? null : <LinePanel kind={chosen.kind as LineKind} name={chosen.name} />}
    />
  );
}

function KindChooser({ kind, onKind }: { kind: string; onKind: (kind: LineKind | '') => void }): JSX.Element {
  const id = useId();
  return (
    <>
      <label for={id} class="unseen">
        Kind
      </label>
      <select id={id} value={kind} onChange={(event) => onKind(event.currentTarget.value as LineKind | '')}>
        <option value="">All kinds</option>
        {LINE_KINDS.map((one) => (
          <option key={one} value={one}>
            {TITLES[one]}s
          </option>
        ))}
      </select>
    </>
  );
}
