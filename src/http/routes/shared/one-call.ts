/** The lease that is made in the same request as what it holds, in the words of the contract. */
import { InvalidError } from '../../../errors.js';
import type { NewLease } from '../../../recipes/with-lease.js';
import type { components } from '../../contract/contract.js';
import type { Exchange } from '../../frame/exchange.js';
import { namedNamespaceOf, requestIdOf, tokenRequestIdOf } from './subject.js';

type LeaseOfAcquire = components['schemas']['LeaseOfAcquire'];

/**
 * The lease to be made, once it is checked that the caller may make one, and can find it again.
 * @throws InvalidError when the request has a lease already, or no requestId that is its own
 */
export function newLeaseOf(
  exchange: Exchange,
  body: { requestId?: string | undefined },
  lease: LeaseOfAcquire,
): NewLease {
  if (exchange.leaseToken !== undefined)
    throw new InvalidError('lease', lease, 'absent when the header Lease-Token is sent: a request has one lease');
  if (requestIdOf(exchange, body) === '')
    throw new InvalidError(
      'requestId',
      undefined,
      'given together with lease, so that a retry finds the lease that the first try made',
    );
  const namespace = namedNamespaceOf(exchange, 'use');
  // The scope that `POST /v1/leases` needs.
  exchange.authorize('use', namespace, { kind: 'lease' });
  tokenRequestIdOf(exchange, body);
  return { principal: exchange.principal.id, namespace, ttlMs: lease.ttlMs, label: lease.label };
}
