/**
 * The public view of double barriers. One is read behind a quorum, unless asked otherwise, a list of them after a
 * `sync`.
 */
import { pageOfNames, type Page } from '../../page.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { Listing, NodeData } from '../../zookeeper/operations.js';
import { describeMember, sortNames, type MemberView } from '../membership/member.js';
import { SHOWN } from '../line/view.js';
import { listInUse } from '../names-in-use.js';
import { readNodes } from '../../zookeeper/read-nodes.js';
import { decodeRound, decodeSize, isInRound, READY, type Round } from './round.js';

export type EntrantView = MemberView & { entered: boolean };

export interface DoubleBarrierView {
  /** What those who are in it agree on; undefined where nobody is. */
  size: number | undefined;
  round: Round | undefined;
  /** The first 100, in the order of their names. */
  members: EntrantView[];
  memberCount: number;
}

/** As the server at hand knows it. */
export async function describeDoubleBarrierStale(zk: BoundClient, directory: string): Promise<DoubleBarrierView> {
  const [parent, listing, ready] = await Promise.all([
    zk.find(directory),
    zk.list(directory),
    zk.find(`${directory}/${READY}`),
  ]);
  const round = ready === undefined ? undefined : decodeRound(ready);
  const names = sortNames((listing?.children ?? []).filter((name) => name !== READY));
  return {
    size: parent === undefined || names.length === 0 ? undefined : decodeSize(parent.data),
    round,
    members: await describeEntrants(zk, directory, names.slice(0, SHOWN), round),
    memberCount: names.length,
  };
}

/** Members in the order of their names. */
export async function listEntrants(
  zk: BoundClient,
  directory: string,
  page: Page,
): Promise<{ items: EntrantView[]; next: string | undefined }> {
  const reading = (): Promise<[Listing | undefined, NodeData | undefined]> =>
    Promise.all([zk.list(directory), zk.find(`${directory}/${READY}`)]);
  const [listing, ready] = await zk.fresh(reading);
  const names = pageOfNames(
    (listing?.children ?? []).filter((name) => name !== READY),
    page,
  );
  const shown = names.slice(0, page.limit);
  const round = ready === undefined ? undefined : decodeRound(ready);
  return {
    items: await describeEntrants(zk, directory, shown, round),
    next: names.length > page.limit ? shown.at(-1) : undefined,
  };
}

/** Double barriers that somebody is in, in the order of their names. */
export async function listDoubleBarriers(
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: (DoubleBarrierView & { name: string })[]; next: string | undefined }> {
  return listInUse(zk, parent, page, async (name) => {
    const view = await describeDoubleBarrierStale(zk, `${parent}/${name}`);
    return view.memberCount === 0 ? undefined : { ...view, name };
  });
}

async function describeEntrants(
  zk: BoundClient,
  directory: string,
  names: readonly string[],
  round: Round | undefined,
): Promise<EntrantView[]> {
  const nodes = await readNodes(
    zk,
    names.map((name) => `${directory}/${name}`),
  );
  return names.flatMap((name, i) => {
    const node = nodes[i];
    if (node === undefined) return [];
    return [{ ...describeMember(name, node), entered: round !== undefined && isInRound(round, name, node.stat.czxid) }];
  });
}
