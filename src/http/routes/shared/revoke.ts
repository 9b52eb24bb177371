/**
 * `POST /v1/{locks,rwlocks,semaphores,elections}/{name}/revoke`: asks for a hold back, in the words of the contract.
 */
import type { LineKind } from '../../../leases/layout.js';
import type { Coordination } from '../../../recipes/coordination.js';
import { revoke } from '../../../recipes/line/revocation/revocation.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange } from '../../frame/exchange.js';
import { namespaceOf } from './subject.js';

type Schemas = components['schemas'];

export async function revokeHolds(context: Coordination, kind: LineKind, exchange: Exchange): Promise<Answer> {
  const { holdId, reason, graceMs } = exchange.body as Schemas['RevokeRequest'];
  const namespace = await namespaceOf(exchange, context.leases, 'admin');
  const { holds } = await revoke(context, {
    kind,
    namespace,
    name: exchange.params['name'] as string,
    holdId,
    reason,
    graceMs,
    deadline: exchange.deadline,
    requester: exchange.requester,
  });
  context.metrics.revocationsTotal.inc({ kind, outcome: 'asked' }, holds.length);
  const breakAts = holds.flatMap(({ breakAt }) => (breakAt === undefined ? [] : [breakAt]));
  const body: Schemas['Revoked'] = {
    ...breakAtOf(breakAts.length === 0 ? undefined : Math.max(...breakAts)),
    holds: holds.map((hold) => ({ holdId: hold.holdId, ...breakAtOf(hold.breakAt) })),
  };
  return { status: 200, body };
}

function breakAtOf(breakAt: number | undefined): { breakAt?: string } {
  return breakAt === undefined ? {} : { breakAt: instant(breakAt) };
}
