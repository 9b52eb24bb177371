/** The 409 that says which lock is held, and by whom. */
import { PosternError } from '../../errors.js';
import type { NotGranted } from '../../recipes/acquire.js';
import type { AcquireLine } from '../../recipes/line-lock.js';
import { instant } from '../../time.js';

const KINDS: Record<AcquireLine['kind'], string> = {
  lock: 'Lock',
  rwlock: 'Read-write lock',
  semaphore: 'Semaphore',
  election: 'Election',
};

export function lockHeld(
  { kind, name }: Pick<AcquireLine, 'kind' | 'name'>,
  { holder, position, lockedUntil }: NotGranted,
): PosternError {
  const who =
    holder === undefined
      ? ''
      : holder.external
        ? ' by a client other than Postern'
        : ` by lease ${holder.leaseId}${holder.label === '' ? '' : ` ("${holder.label}")`}`;
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
          },
        }),
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
    kind === 'semaphore'
      ? `Semaphore "${name}" had too few free permits, and they did not become free in time. The place in line was given up.`
      : `${KINDS[kind]} "${name}" is held${who}, and it did not become free in time. The place in line was given up.`,
    { members },
  );
}
