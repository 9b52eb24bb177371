/**
 * Bounds how many reservations a namespace and a principal in it may have, wanted and standing: each is two nodes that
 * go by no session's end. They are counted by a listing before each is made, so those that are made at the same moment
 * may exceed a bound by as many.
 */
import type { Config } from '../../config.js';
import { PosternError } from '../../errors.js';
import { retrying } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { isOf } from './reservation.js';

export type ReservationLimits = Pick<
  Config,
  'maxReservations' | 'maxReservationsPerPrincipal' | 'maxReservationMs' | 'fleetlockHoldMs' | 'terraformLockMs'
>;

export class ReservationBounds {
  readonly #context: Coordination;
  readonly limits: ReservationLimits;

  constructor(context: Coordination, limits: ReservationLimits) {
    this.#context = context;
    this.limits = limits;
  }

  /** @throws PosternError `too-many-reservations`; nothing was done */
  async admit(namespace: string, principal: string, deadline: number): Promise<void> {
    const { control, layout, metrics } = this.#context;
    const zk = control.until(deadline);
    const ids = await retrying(deadline, () => zk.children(layout.reservationsOf(namespace)));
    const counts = {
      maxReservationsPerPrincipal: ids.filter((id) => isOf(id, principal)).length,
      maxReservations: ids.length,
    };
    for (const limit of ['maxReservationsPerPrincipal', 'maxReservations'] as const) {
      const max = this.limits[limit];
      if (counts[limit] < max) continue;
      metrics.limitRefusalsTotal.inc({ limit: 'reservations' });
      const whose = limit === 'maxReservations' ? 'There are' : `"${principal}" has`;
      throw new PosternError(
        'too-many-reservations',
        `${whose} ${counts[limit]} reservations in namespace "${namespace}" already, and there may be ${max}. Nothing was done.`,
        { members: { limit, [limit]: max, reservations: counts[limit] } },
      );
    }
  }
}
