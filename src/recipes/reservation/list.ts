/** The reservations of a namespace that stand, by the names of their locks. */
import type { Page } from '../../page.js';
import { readOfMany, type ReadNode } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import { decodeReservation, isStanding, reservedName, type StandingRecord } from './reservation.js';

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
  const paths = ids.map((id) => `${directory}/${id}`);
  const shownOf = ({ data }: ReadNode): StandingRecord | undefined => {
    const name = reservedName(data);
    if (name === undefined || !name.startsWith(prefix) || !shows(name)) return undefined;
    const record = decodeReservation(data);
    return record !== undefined && isStanding(record) ? record : undefined;
  };
  const found = await readOfMany(zk, control.largeReads, paths, shownOf, RECORD_BYTES_MAX);
  const records = found.filter((record) => record !== undefined);
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
