/**
 * The public view of an election: the leader and the candidates. One election is read behind a quorum, unless asked
 * otherwise; a list of them after a `sync`.
 *
 * The leader is the first in line, as in Curator's LeaderLatch; everybody in line is a candidate, including the leader.
 */
import { lengthShown } from '../../json-text.js';
import type { Page } from '../../page.js';
import type { ContenderView } from '../line/describe.js';
import { readContenders, readEach, readLine, SHOWN, type Reader } from '../line/view.js';
import { readPage } from '../full-page.js';
import { readLinePage, type LinePage } from '../line-page.js';
import { listInUse } from '../names-in-use.js';
import type { BoundClient } from '../../zookeeper/bound.js';

export interface ElectionView {
  leader: ContenderView | undefined;
  /** The first 100, the leader being the first. */
  candidates: ContenderView[];
  candidateCount: number;
}

/** As the server at hand knows it. */
export async function describeElectionStale(
  context: Reader,
  zk: BoundClient,
  directory: string,
): Promise<ElectionView> {
  for (;;) {
    const line = await readLine(zk, directory);
    const shown = await readContenders(context, zk, directory, line.slice(0, SHOWN));
    const candidates = shown.map(({ view }) => view);
    // All of them have left since they were listed: whoever came meanwhile may lead.
    if (line.length > 0 && candidates.length === 0) continue;
    return { leader: candidates[0], candidates, candidateCount: line.length };
  }
}

/** Candidates in line order. */
export async function listCandidates(
  context: Reader,
  zk: BoundClient,
  directory: string,
  page: LinePage,
): Promise<{ items: (ContenderView & { position: number })[]; next: string | undefined }> {
  const line = await zk.fresh(() => readLine(zk, directory));
  const { items, next } = await readLinePage(line, page, (wanted) =>
    readPage(
      wanted,
      (some) => readEach(context, zk, some, ({ name }) => `${directory}/${name}`),
      ({ view }) => lengthShown(view.data),
    ),
  );
  return { items: items.map(({ view, contender }) => ({ ...view, position: line.indexOf(contender) })), next };
}

export interface ElectionSummary {
  name: string;
  leader: ContenderView | undefined;
  candidateCount: number;
}

/** Elections in which somebody stands, in the order of their names. */
export async function listElections(
  context: Reader,
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: ElectionSummary[]; next: string | undefined }> {
  const describe = async (name: string): Promise<ElectionSummary | undefined> => {
    const directory = `${parent}/${name}`;
    const line = await readLine(zk, directory);
    const [leader] = await readContenders(context, zk, directory, line.slice(0, 1));
    return line.length === 0 ? undefined : { name, leader: leader?.view, candidateCount: line.length };
  };
  return listInUse(zk, parent, page, describe, { lengthOf: ({ leader }) => lengthShown(leader?.data) });
}

/** Whether a fencing token is that of the present leader, by a quorum. */
export async function checkLeader(
  context: Reader,
  zk: BoundClient,
  directory: string,
  fencingToken: number,
): Promise<{ current: boolean; latestFencingToken: number | null }> {
  const [leader] = await zk.fresh(async () => {
    const line = await readLine(zk, directory);
    // One more than the first, should that one leave just now.
    return readContenders(context, zk, directory, line.slice(0, 2));
  });
  const latest = leader?.view.fencingToken ?? null;
  return { current: latest === fencingToken, latestFencingToken: latest };
}
