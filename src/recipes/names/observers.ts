/**
 * Watches the names in a directory (`observing/observers.ts`): names that come and go cost one notification and one
 * reading, at most a few times a second, because a directory with many names is read as a whole.
 */
import type { ControlSession } from '../../zookeeper/control-session.js';
import { paced } from '../observing/looks.js';
import { Observers, type Look, type LookResult, type Observed, type Subject } from '../observing/observers.js';

export interface NamesState extends Observed {
  names: ReadonlySet<string>;
  /** Those that have come or gone since the previous state: all that later calls of a subscriber have to look at. */
  changed: readonly string[];
}

export type NamesObservers = Observers<Subject, NamesState>;

const BETWEEN_MS = 200;

/** Of all directories of one replica. */
export function namesObservers(control: ControlSession): NamesObservers {
  return new Observers(
    control,
    paced(BETWEEN_MS, (directory, look) => lookAtNames(control, directory, look)),
  );
}

async function lookAtNames(
  { watches }: ControlSession,
  { path }: Subject,
  look: Look<NamesState>,
): Promise<LookResult> {
  const present = await watches.getChildren(path, look.wake, look.deadline);
  look.keep(present.watch);
  const listing = present.value;
  if (listing !== undefined) {
    publish(look, `${listing.stat.czxid}-${listing.stat.pzxid}`, listing.children);
    return 'wait';
  }
  publish(look, 'absent', []);
  const absent = await watches.exists(path, look.wake, look.deadline);
  look.keep(absent.watch);
  return absent.value === undefined ? 'wait' : 'again';
}

/** The difference is found once here, however many subscribers there are. */
function publish({ known, publish }: Look<NamesState>, etag: string, listed: readonly string[]): void {
  if (etag === known?.etag) return;
  const names = new Set(listed);
  const before = known?.names ?? new Set<string>();
  const gone = [...before].filter((name) => !names.has(name));
  publish({ etag, names, changed: [...listed.filter((name) => !before.has(name)), ...gone] });
}
