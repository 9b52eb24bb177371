/** The reservations of a namespace that stand, by the names of their locks. */
import type { Page } from '../../page.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { Coordination } from '../coordination.js';
import { decodeReservation, isStanding, type StandingRecord } from './reservation.js';

/** So many nodes are read in one request. */
const READ_AT_ONCE = 128;
const RECORD_BYTES_MAX = 6 * 1024;

/** As the server at hand knows them. */
export async function listReservations(
  { control, layout }: Pick<Coordination, 'control' | 'layout'>,
  namespace: string,
  deadline: number,
  { after, prefix, shows, limit }: Page,
): Promise<{ items: StandingRecord[]; next: string | undefined }> {
  const zk = control.until(deadline);
  const directory = layout.reservationsOf(namespace);
  const ids = await zk.children(directory);
  const records: StandingRecord[] = [];
  for (let i = 0; i < ids.length; i += READ_AT_ONCE) {
    const paths = ids.slice(i, i + READ_AT_ONCE).map((id) => `${directory}/${id}`);
    const read = (): ReturnType<BoundClient['multiRead']> =>
      zk.multiRead(paths.map((path) => ({ type: 'getData', path })));
    const { results } = await control.largeReads.spend(paths.length * RECORD_BYTES_MAX, deadline, read);
    for (const result of results) {
      const record = 'data' in result ? decodeReservation(result.data) : undefined;
      if (record !== undefined && isStanding(record) && record.name.startsWith(prefix) && shows(record.name))
        records.push(record);
    }
  }
  // A lock has one at most: there is one holder.
  records.sort((a, b) => (a.name < b.name ? -1 : 1));
  const rest = after === undefined ? records : records.filter(({ name }) => name > after);
  const page = rest.slice(0, limit);
  const places = await Promise.all(page.map(({ standing }) => zk.exists(standing.path)));
  return {
    items: page.filter(({ standing }, i) => places[i]?.czxid === standing.czxid),
    next: rest.length > page.length ? page.at(-1)?.name : undefined,
  };
}
