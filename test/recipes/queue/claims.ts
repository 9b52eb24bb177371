/**
 * What tests of claims begin with.
 */
import type { Lease } from '../../../src/leases/lease.js';
import { consume, type Consumed, type ConsumeRequest } from '../../../src/recipes/queue/claim/consume.js';
import type { LeaseHandle } from '../../support/http/client.js';
import { PRESENT, soon } from '../../support/scene.js';
import type { Pair, Replica } from '../../support/start-gateway.js';
import { claim, type ClaimedMessage } from './client.js';

export async function leasesOf(pair: Pair): Promise<[LeaseHandle, LeaseHandle]> {
  return Promise.all([pair.a.createLease({ ttlMs: 20_000 }), pair.b.createLease({ ttlMs: 20_000 })]);
}

export async function claimOne(...args: Parameters<typeof claim>): Promise<ClaimedMessage> {
  const [message] = await claim(...args);
  if (message === undefined) throw new Error('nothing was claimed');
  return message;
}

/** As the route does, with its answer in hand and not given to anybody. */
export function claimDirectly(
  { gateway }: Replica,
  lease: Lease,
  {
    requestId = '',
    hardDeadline = soon(),
    ...rest
  }: { requestId?: string } & Partial<Pick<ConsumeRequest, 'name' | 'max' | 'hardDeadline' | 'reserve'>> = {},
): Promise<Consumed> {
  return consume(gateway.context, gateway.recipes.queue.queues, {
    namespace: 'default',
    name: 'work',
    max: 2,
    claim: { lease, requestId, claimMs: undefined },
    waitMs: 0,
    receivedAt: performance.now(),
    hardDeadline,
    caller: PRESENT,
    reserve: () => undefined,
    ...rest,
  });
}

export async function opened({ gateway }: Replica, { leaseToken }: LeaseHandle): Promise<Lease> {
  const caller = { principal: 'anonymous', namespace: undefined };
  const { lease } = await gateway.context.leases.open(leaseToken, caller, soon());
  return lease;
}
