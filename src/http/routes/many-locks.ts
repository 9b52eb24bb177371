/** `POST /v1/locks/acquire`: many locks, all or none, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { Lease } from '../../leases/lease.js';
import { acquireLocks, type ManyNotGranted } from '../../recipes/lock/many-locks.js';
import { endReason, instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange } from '../frame/exchange.js';
import { lockHeld } from './shared/lock-held.js';
import { leaseOf, requestIdOf } from './shared/subject.js';

type Schemas = components['schemas'];

export async function acquireManyLocks(context: Coordination, exchange: Exchange): Promise<Answer> {
  const body = exchange.body as Schemas['AcquireLocksRequest'];
  const { waitMs = 0, names } = body;
  const requestId = requestIdOf(exchange, body);
  const lease = await leaseOf(exchange, context.leases);
  for (const name of names) exchange.authorize('use', lease.namespace, { name });
  const result = await acquireLocks(context, lease, {
    names,
    requestId,
    waitMs,
    lockDelayMs: body.lockDelayMs,
    receivedAt: exchange.receivedAt,
    hardDeadline: exchange.deadline + waitMs,
    requester: exchange.requester,
  });
  if (!result.held) throw refusal(result, lease, exchange);
  const grants = [...result.grants];
  const answer: Schemas['AcquiredLocks'] = {
    items: grants.map(([name, { holdId, fencingToken, alreadyHeld }]) => ({ name, holdId, fencingToken, alreadyHeld })),
    requestId,
    waitedMs: Math.max(...grants.map(([, { waitedMs }]) => waitedMs)),
    leaseId: lease.leaseId,
    ttlMs: lease.ttlMs,
    expiresAt: instant(Math.max(...grants.map(([, { expiresAt }]) => expiresAt))),
  };
  return { status: 200, body: answer, undelivered: () => void result.giveBack() };
}

function refusal({ name, refusal }: ManyNotGranted, { leaseId }: Lease, { signal }: Exchange): PosternError {
  if (refusal.why === 'draining' || endReason(signal) === 'draining')
    return new PosternError(
      'draining',
      'This replica is shutting down. None of the locks is held, and no place in line is kept; repeat the request.',
      { members: { placeKept: false } },
    );
  if (refusal.why === 'client-gone') return new PosternError('conflict', 'The client went away.');
  return lockHeld({ kind: 'lock', name }, refusal, leaseId);
}
