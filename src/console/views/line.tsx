/** One line looked at closely: who holds it, with what, and who waits in which order. */
import type { JSX } from 'preact';
import { LISTS, type ElectionState, type HeldState, type Schemas } from '../api/contract.js';
import { requestJson } from '../api/request.js';
import { Age } from '../parts/age.js';
import { Facts } from '../parts/facts.js';
import { LeaseLink } from '../parts/link.js';
import { Panel } from '../parts/panel.js';
import { SmallTable } from '../parts/small-table.js';
import { Empty, Failed, Loading } from '../parts/states.js';
import { Value } from '../parts/value.js';
import { useFetched } from '../state/fetched.js';
import { holdersOf, isLineKind, type Holder, type LineKind } from '../state/lines.js';
import { thingsOf } from '../state/live.js';
import { caller } from '../state/session.js';
import { fullNameOf, nameOf } from '../words/holder.js';
import { number, quantity } from '../words/quantity.js';
import { visible } from '../words/visible.js';
import { Revoke } from './revoke.js';
import { Transfer } from './transfer.js';

const EVERY_MS = 2_000;

/** What the lists of waiters and of candidates have in common. */
interface Waiter {
  readonly leaseId: string | null;
  readonly principal: string | null;
  readonly label: string | null;
  readonly since: string;
  readonly position: number;
  readonly mode?: string;
  readonly count?: number;
  readonly preference?: number;
  readonly priority?: number;
  readonly candidateId?: string | null;
  readonly external: boolean;
}

type Shown = Schemas['Lock'] | Schemas['Semaphore'] | Schemas['Election'];

export function LinePanel({ kind, name }: { kind: LineKind; name: string }): JSX.Element {
  return (
    <Panel kind={kind} name={name}>
      {isLineKind(kind) ? <LineBody kind={kind} name={name} /> : <Empty>There is no such kind of line.</Empty>}
    </Panel>
  );
}

function LineBody({ kind, name }: { kind: LineKind; name: string }): JSX.Element {
  const { namespace } = caller();
  const { value, error } = useFetched<Shown>(
    `${namespace} ${kind} ${name}`,
    (signal) => requestJson(caller(), { path: [LISTS[kind], name], signal }),
    EVERY_MS,
  );
  const told = (thingsOf(kind) as ReadonlyMap<string, HeldState | ElectionState>).get(name);
  if (told === undefined && value === undefined)
    return error === undefined ? <Loading what={name} /> : <Failed error={error} what={name} />;
  const holders = told === undefined ? holdersOf(value as HeldState | ElectionState) : holdersOf(told);
  const { waiters, count } = waitersOf(value);
  return (
    <>
      <Facts
        facts={[
          [kind === 'election' ? 'Leads' : 'Held by', number(holders.length)],
          ['Waiting', value === undefined ? '…' : number(count)],
          kind === 'semaphore' && ['Limit', limitOf(told, value)],
          kind === 'semaphore' && ['Permits held', number(holders.reduce((sum, one) => sum + (one.count ?? 1), 0))],
          value !== undefined && 'lockedUntil' in value && ['Locked until', value.lockedUntil],
        ]}
      />
      {holders.length === 0 ? <Empty>Nobody holds it.</Empty> : null}
      {holders.map((holder) => (
        <HolderCard key={holder.holdId ?? holder.since} kind={kind} name={name} holder={holder} waiting={count} />
      ))}
      {error === undefined ? (
        <Waiters name={name} waiters={waiters} count={count} />
      ) : (
        <Failed error={error} what="who waits" />
      )}
    </>
  );
}

function HolderCard(props: { kind: LineKind; name: string; holder: Holder; waiting: number }): JSX.Element {
  const { kind, name, holder, waiting } = props;
  const { data, count, mode, reservation } = holder;
  return (
    <article class="card" aria-label={`Holder ${nameOf(holder)}`}>
      <h3>{nameOf(holder)}</h3>
      <Facts
        facts={[
          ['Principal', holder.principal],
          ['Held for', <Age since={holder.since} />],
          ['Fencing token', <span class="name">{holder.fencingToken}</span>],
          reservation === undefined && ['Lease', <LeaseLink leaseId={holder.leaseId} />],
          reservation !== undefined && ['Reserved until', reservation.until],
          reservation?.reason != null && ['Reason', visible(reservation.reason)],
          mode !== undefined && mode !== 'exclusive' && ['Mode', mode],
          count !== undefined && ['Permits', number(count)],
        ]}
      />
      {data == null ? null : (
        <Value value={data} label={kind === 'election' ? 'Value of the leader' : 'Data of the hold'} />
      )}
      {kind === 'election' && holder.external ? null : (
        <Revoke kind={kind} name={name} holder={holder} waiting={waiting} />
      )}
    </article>
  );
}

interface WaitersProps {
  readonly name: string;
  readonly waiters: readonly Waiter[];
  readonly count: number;
}

function Waiters({ name, waiters, count }: WaitersProps): JSX.Element {
  if (waiters.length === 0) return <Empty>Nobody waits.</Empty>;
  const more = count > waiters.length ? `, the first ${waiters.length} of ${number(count)}` : '';
  return (
    <SmallTable
      caption={`In line${more}`}
      heads={['Place', 'Who', 'Waits for', 'Lease']}
      keys={waiters.map((waiter) => waiter.candidateId ?? `${waiter.leaseId} ${waiter.since} ${waiter.position}`)}
      rows={waiters.map((waiter) => [
        waiter.position,
        <span title={fullNameOf(waiter)}>
          {nameOf(waiter)}
          {waiter.mode === 'read' || waiter.mode === 'write' ? <span class="soft"> to {waiter.mode}</span> : null}
          {waiter.count === undefined ? null : <span class="soft"> {quantity(waiter.count, 'permit')}</span>}
          {waiter.priority === undefined ? null : <span class="soft"> priority {waiter.priority}</span>}
          {waiter.preference ? <span class="soft"> preference {waiter.preference}</span> : null}
          {waiter.candidateId == null ? null : (
            <Transfer name={name} candidate={waiter} candidateId={waiter.candidateId} />
          )}
        </span>,
        <Age since={waiter.since} />,
        <LeaseLink leaseId={waiter.leaseId} />,
      ])}
    />
  );
}

function waitersOf(value: Shown | undefined): { waiters: readonly Waiter[]; count: number } {
  if (value === undefined) return { waiters: [], count: 0 };
  if ('waiters' in value) return { waiters: value.waiters, count: value.waiterCount };
  // The leader is the first of the candidates.
  const led = value.leader === null ? 0 : 1;
  return { waiters: value.candidates.slice(led), count: value.candidateCount - led };
}

function limitOf(told: HeldState | ElectionState | undefined, value: Shown | undefined): string {
  const limit =
    told !== undefined && 'limit' in told ? told.limit : value !== undefined && 'limit' in value ? value.limit : null;
  return limit == null ? 'not agreed on yet' : number(limit);
}
