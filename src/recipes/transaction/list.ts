/**
 * Listing transactions, open ones and those that are kept as history, in the order of their ids. Those that can be
 * decided are, before they are shown.
 */
import { BUCKET_DIGITS } from '../../leases/layout.js';
import type { Page, PageEnd } from '../../page.js';
import type { Coordination } from '../coordination.js';
import type { TransactionDecisions } from './decisions.js';
import { lookAt, type TransactionLook } from './record.js';

export interface TransactionPage extends Omit<Page, 'shows'> {
  readonly namespace: string;
  /** Whether whoever asks may see a transaction of these participants. */
  readonly shows: (participants: readonly string[]) => boolean;
}

/** So many are read at once. */
const AT_ONCE = 32;
/** A hundred participants of the longest names, the largest data, and what was decided about them. */
const RECORD_BYTES = 48 * 1024;
/**
 * Transactions, and bytes of them, that one page looks at: of many the caller may see none. Then it ends, however few
 * it has.
 */
const LOOKED_MAX = 2_000;
const LOOKED_BYTES_MAX = 4 * 1024 * 1024;

/** @param show what is kept of each: a thousand records have many megabytes */
export async function listTransactions<T>(
  { control, layout }: Coordination,
  decisions: TransactionDecisions,
  page: TransactionPage,
  show: (look: TransactionLook) => T,
  deadline: number,
): Promise<{ items: T[]; next: PageEnd | undefined }> {
  const { namespace } = page;
  const directory = layout.transactions(namespace);
  const zk = control.until(deadline);
  const read = async (id: string): Promise<TransactionLook | undefined> => {
    const ref = decisions.ref(namespace, id);
    const node = await zk.find(ref.path);
    return node === undefined ? undefined : lookAt(ref, node);
  };
  const decided = async (look: TransactionLook | undefined): Promise<TransactionLook | undefined> =>
    look !== undefined && decisions.isDue(look) ? decisions.decide(look.ref, deadline) : look;
  await zk.sync(directory);
  const items: T[] = [];
  let last = '';
  let looked = 0;
  let lookedBytes = 0;
  for (const bucket of (await zk.children(directory)).sort()) {
    if (page.after !== undefined && bucket < page.after.slice(0, BUCKET_DIGITS)) continue;
    if (!bucket.startsWith(page.prefix.slice(0, BUCKET_DIGITS)) && !page.prefix.startsWith(bucket)) continue;
    // What it shows depends on what is read.
    const ids = (await zk.names(`${directory}/${bucket}`)).page({ ...page, shows: () => true }, LOOKED_MAX);
    for (let i = 0; i < ids.length; i += AT_ONCE) {
      const batch = ids.slice(i, i + AT_ONCE);
      const found = await control.largeReads.spend(batch.length * RECORD_BYTES, deadline, () =>
        Promise.all(batch.map(read)),
      );
      for (const look of await Promise.all(found.map(decided))) {
        if (look === undefined || !page.shows(look.record.participants)) continue;
        if (items.length === page.limit) return { items, next: { at: last, secret: false } };
        items.push(show(look));
        last = look.ref.id;
      }
      looked += batch.length;
      lookedBytes += found.reduce((sum, look) => sum + (look?.stat.dataLength ?? 0), 0);
      if (looked >= LOOKED_MAX || lookedBytes >= LOOKED_BYTES_MAX)
        return { items, next: { at: batch.at(-1) as string, secret: true } };
    }
  }
  return { items, next: undefined };
}
