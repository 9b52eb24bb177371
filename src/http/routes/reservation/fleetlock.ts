/**
 * FleetLock, by which machines ask before they reboot (ADR 31): the slot of a group is a reservation of the lock
 * `fleetlock.<group>`, found again by the machine's id.
 *
 * Source:  https://coreos.github.io/zincati/development/fleetlock/protocol/
 */
import { createHash } from 'node:crypto';
import type { Coordination } from '../../../recipes/coordination.js';
import type { ReservationBounds } from '../../../recipes/reservation/bounds.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange, Routes } from '../../frame/exchange.js';
import type { Building } from '../shared/serving.js';
import { namedNamespaceOf } from '../shared/subject.js';
import { giveBack, prolong, standing, take, type Named } from './taken.js';

const LOCK_PREFIX = 'fleetlock.';
const REASON = 'reboot (FleetLock)';

export function fleetlockRoutes({ context, recipes }: Building): Routes {
  const { bounds } = recipes.reservation;
  return {
    preReboot: (exchange) => preReboot(context, bounds, exchange),
    steadyState: (exchange) => steadyState(context, exchange),
  };
}

async function preReboot(context: Coordination, bounds: ReservationBounds, exchange: Exchange): Promise<Answer> {
  const forMs = bounds.limits.fleetlockHoldMs;
  const { owner, ...slot } = slotOf(exchange);
  for (;;) {
    const taken = await take(context, bounds, { ...slot, owner, reason: REASON, forMs }, exchange);
    if (!taken.held) throw taken.refusal;
    const { isNew, claim, undelivered } = taken;
    if (isNew) return { status: 200, undelivered };
    // Its end may have come in between.
    if (await prolong(context, claim, forMs, exchange)) return { status: 200 };
  }
}

async function steadyState(context: Coordination, exchange: Exchange): Promise<Answer> {
  const claim = await standing(context, slotOf(exchange), exchange);
  if (claim !== undefined) await giveBack(context, claim, exchange);
  return { status: 200 };
}

function slotOf(exchange: Exchange): Named & { owner: string } {
  const { id, group } = (exchange.body as components['schemas']['FleetLockRequest']).client_params;
  const name = LOCK_PREFIX + group;
  const namespace = namedNamespaceOf(exchange, 'use');
  exchange.authorize('use', namespace, { name });
  return { namespace, name, requestId: createHash('sha256').update(id).digest('base64url'), owner: id };
}
