/** Who somebody is, in a few words: by the label if there is one. */
import { visible } from './visible.js';

interface Somebody {
  readonly label?: string | null;
  readonly principal?: string | null;
  readonly leaseId?: string | null;
  readonly external?: boolean;
}

const ID_SHOWN = 8;

export function nameOf({ label, principal, leaseId, external }: Somebody): string {
  if (label != null && label !== '') return visible(label);
  if (external === true) return 'a client that is not Postern’s';
  return leaseId == null ? visible(principal ?? 'somebody') : `lease ${leaseId.slice(0, ID_SHOWN)}`;
}

/** With principal and lease, for sentences that say to whom something happens. */
export function fullNameOf(one: Somebody): string {
  const { principal, leaseId } = one;
  const more = [principal, leaseId == null ? null : `lease ${leaseId.slice(0, ID_SHOWN)}…`].filter(
    (text) => text != null,
  );
  return more.length === 0 ? nameOf(one) : `${nameOf(one)} (${visible(more.join(', '))})`;
}
