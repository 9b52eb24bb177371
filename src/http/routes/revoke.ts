/** `POST /v1/{locks,rwlocks}/{name}/revoke`: asking a hold back, in the words of the contract. */
import type { LineKind } from '../../leases/layout.js';
import type { Coordination } from '../../recipes/coordination.js';
import { revoke } from '../../recipes/revocation.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, Exchange } from '../exchange.js';
import { namespaceOf } from './subject.js';

type Schemas = components['schemas'];

export async function revokeHolds(context: Coordination, kind: LineKind, exchange: Exchange): Promise<Answer> {
  const { holdId, reason, graceMs } = exchange.body as Schemas['RevokeRequest'];
  const namespace = namespaceOf(exchange, 'admin');
  const { holds } = await revoke(context, {
    kind,
    namespace,
    name: exchange.params['name'] as string,
    holdId,
    reason,
    graceMs,
    deadline: exchange.deadline,
  });
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
