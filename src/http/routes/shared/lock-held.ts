/** The 409 that says which lock is held, and by whom. */
import { PosternError } from '../../../errors.js';
import type { ContenderView } from '../../../recipes/line/describe.js';
import type { NotGranted } from '../../../recipes/line/acquire.js';
import type { AcquireLine } from '../../../recipes/line/request.js';
import { instant } from '../../../time.js';

const KINDS: Record<AcquireLine['kind'], string> = {
  pool: 'Pool',
  lock: 'Lock',
  rwlock: 'Read-write lock',
  semaphore: 'Semaphore',
  election: 'Election',
};

/** @param own the leaseId of the lease that asks, if it asks for one */
export function lockHeld(
  { kind, name }: Pick<AcquireLine, 'kind' | 'name'>,
  { holder, next, position, lockedUntil }: NotGranted,
  own = '',
): PosternError {
  const members = {
    name,
    position,
    ...(holder === undefined
      ? {}
      : {
          holder: {
            leaseId: holder.external ? null : holder.leaseId,
            label: holder.external ? null : holder.label,
            since: instant(holder.since),
            fencingToken: holder.fencingToken,
            ...reservedBy(holder),
          },
        }),
    ...(next === undefined ? {} : { next: { leaseId: next.leaseId, label: next.label } }),
    ...(lockedUntil === undefined ? {} : { lockedUntil: instant(lockedUntil) }),
  };
  if (holder === undefined && lockedUntil !== undefined)
    return new PosternError(
      'lock-held',
      `${KINDS[kind]} "${name}" was lost by its holder, and its lock-delay runs until ${instant(lockedUntil)}. The place in line was given up.`,
      { members },
    );
  return new PosternError(
    'lock-held',
    `${whatHinders(kind, name, { holder, next }, own)} The place in line was given up.`,
    {
      members,
    },
  );
}

function whatHinders(
  kind: AcquireLine['kind'],
  name: string,
  { holder, next }: Pick<NotGranted, 'holder' | 'next'>,
  own: string,
): string {
  if (kind === 'semaphore')
    return `Semaphore "${name}" had too few free permits, and they did not become free in time.`;
  if (next !== undefined)
    return `Nobody holds ${KINDS[kind].toLowerCase()} "${name}", but ${leaseOf(next, own)} is first in line and has not taken it up yet; a place that nobody asks for any more is passed by some seconds after its wait.`;
  const who = holder === undefined ? '' : ` by ${leaseOf(holder, own)}`;
  return `${KINDS[kind]} "${name}" is held${who}, and it did not become free in time.`;
}

/** Its lease has ended, and does not matter. */
function reservedBy({ reservation }: ContenderView): Record<string, unknown> {
  if (reservation?.until === undefined) return {};
  return { leaseId: null, owner: reservation.owner, reservedUntil: instant(reservation.until) };
}

function leaseOf({ external, leaseId, label, reservation }: ContenderView, own: string): string {
  if (external) return 'a client other than Postern';
  if (reservation?.until !== undefined)
    return `a reservation of "${reservation.owner}" until ${instant(reservation.until)}`;
  if (leaseId === own) return 'your own lease, under another requestId';
  return `lease ${leaseId}${label === '' ? '' : ` ("${label}")`}`;
}
