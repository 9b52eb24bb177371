/** Listing transactions, open ones and those that are kept as history, in the order of their ids. Those that can be decided are, before they are shown. */
import { BUCKET_DIGITS } from '../leases/layout.js';
import type { Page } from '../page.js';
import { unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import type { TransactionDecisions } from './transaction-decisions.js';
import { lookAt, type TransactionLook } from './transaction-record.js';

export interface TransactionPage extends Omit<Page, 'shows'> {
  /** Whether whoever asks may see a transaction of these participants. */
  readonly shows: (participants: readonly string[]) => boolean;
}

/** So many are read at once. */
const AT_ONCE = 64;

export async function listTransactions(
  { control, layout }: Coordination,
  decisions: TransactionDecisions,
  namespace: string,
  page: TransactionPage,
  deadline: number,
): Promise<{ items: TransactionLook[]; next: string | undefined }> {
  const directory = layout.transactions(namespace);
  const children = async (path: string): Promise<string[]> =>
    (await unless(control.getChildren(path, deadline), 'NO_NODE'))?.children.sort() ?? [];
  const read = async (id: string): Promise<TransactionLook | undefined> => {
    const ref = decisions.ref(namespace, id);
    const node = await unless(control.getData(ref.path, deadline), 'NO_NODE');
    if (node === undefined) return undefined;
    const look = lookAt(ref, node);
    return decisions.isDue(look) ? decisions.decide(ref, deadline) : look;
  };
  await control.sync(directory, deadline);
  const items: TransactionLook[] = [];
  for (const bucket of await children(directory)) {
    if (page.after !== undefined && bucket < page.after.slice(0, BUCKET_DIGITS)) continue;
    if (!bucket.startsWith(page.prefix.slice(0, BUCKET_DIGITS)) && !page.prefix.startsWith(bucket)) continue;
    const ids = (await children(`${directory}/${bucket}`)).filter(
      (id) => id.startsWith(page.prefix) && (page.after === undefined || id > page.after),
    );
    // One more than fit, which tells whether there is another page.
    for (let i = 0; i < ids.length && items.length <= page.limit; i += AT_ONCE) {
      const looks = await Promise.all(ids.slice(i, i + AT_ONCE).map(read));
      items.push(...looks.filter((look) => look !== undefined).filter(({ record }) => page.shows(record.participants)));
    }
    if (items.length > page.limit) return { items: items.slice(0, page.limit), next: items[page.limit - 1]?.ref.id };
  }
  return { items, next: undefined };
}
