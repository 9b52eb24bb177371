/** A link to a thing, where the console shows that kind. */
import type { JSX } from 'preact';
import { hrefOfThing } from '../state/route.js';

export function ThingLink({ kind, name, text }: { kind: string; name: string; text?: string }): JSX.Element {
  const href = hrefOfThing(kind, name);
  return href === undefined ? (
    <span class="name">{text ?? name}</span>
  ) : (
    <a class="name" href={href}>
      {text ?? name}
    </a>
  );
}

/** The rest of an id tells nobody anything, and is in the page of the lease. */
const ID_SHOWN = 10;

export function LeaseLink({ leaseId }: { leaseId: string | null | undefined }): JSX.Element {
  return leaseId == null ? (
    <span class="soft">–</span>
  ) : (
    <ThingLink kind="lease" name={leaseId} text={`${leaseId.slice(0, ID_SHOWN)}…`} />
  );
}
