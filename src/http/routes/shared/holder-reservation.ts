/** A reservation as the holder of a lock, in the words of the contract. */
import type { ReservedPlace } from '../../../recipes/line/contender.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';

export function describeReservation({
  owner,
  reason,
  until = 0,
}: ReservedPlace): components['schemas']['HolderReservation'] {
  return { owner, reason: reason ?? null, until: instant(until) };
}
