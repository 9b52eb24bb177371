/**
 * What everybody may see of a group. One group is read behind a quorum, unless asked otherwise, a list of them after a
 * `sync`; requests of the same moment share a reading. The ETag covers all members and their values, so all are read,
 * in batches within a budget, though of all but the first only the versions are kept.
 */
import type { Page } from '../../page.js';
import { describeMember, etagOfMembers, sortNames, type MemberView } from '../membership/member.js';
import { SHOWN } from '../line/view.js';
import { listInUse } from '../names-in-use.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ByteBudget } from '../../zookeeper/byte-budget.js';
import { readNodes, readOfMany } from '../../zookeeper/read-nodes.js';

export interface GroupView {
  /** The first 100, in the order of their names. */
  members: MemberView[];
  memberCount: number;
  etag: string;
}

/** As the server at hand knows it. */
export async function describeGroupStale(
  zk: BoundClient,
  largeReads: ByteBudget,
  directory: string,
): Promise<GroupView> {
  const names = sortNames(await zk.children(directory));
  const found = await readOfMany(
    zk,
    largeReads,
    names.map((name) => `${directory}/${name}`),
    ({ data, stat }, i) => {
      // Some that were listed have gone since, so a few more values are kept than are shown; of the others only what
      // the ETag needs.
      const { czxid, version } = stat;
      const name = names[i] as string;
      return { name, czxid, version, view: i < 2 * SHOWN ? describeMember(name, { data, stat }) : undefined };
    },
  );
  const members = found.filter((member) => member !== undefined);
  return {
    members: members.flatMap(({ view }) => view ?? []).slice(0, SHOWN),
    memberCount: members.length,
    etag: etagOfMembers(members.map(({ name, czxid, version }) => [name, czxid, version])),
  };
}

/** Members in the order of their names. */
export async function listMembers(
  zk: BoundClient,
  directory: string,
  page: Page,
): Promise<{ items: MemberView[]; next: string | undefined }> {
  const names = (await zk.fresh(() => zk.names(directory))).page(page);
  const shown = names.slice(0, page.limit);
  const nodes = await readNodes(
    zk,
    shown.map((name) => `${directory}/${name}`),
  );
  return {
    items: shown.flatMap((name, i) => {
      const node = nodes[i];
      return node === undefined ? [] : [describeMember(name, node)];
    }),
    next: names.length > page.limit ? shown.at(-1) : undefined,
  };
}

/** Groups that have members, in the order of their names. */
export function listGroups(
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: { name: string; memberCount: number }[]; next: string | undefined }> {
  return listInUse(zk, parent, page, (name, { stat }) => Promise.resolve({ name, memberCount: stat.numChildren }));
}
