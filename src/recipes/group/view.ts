/**
 * What everybody may see of a group. One group is read behind a quorum, unless asked otherwise, a list of them after a
 * `sync`; requests of the same moment share a reading.
 */
import { lengthShown } from '../../json-text.js';
import type { Page } from '../../page.js';
import { describeMember, type MemberView } from '../membership/member.js';
import { readPage } from '../full-page.js';
import { listInUse } from '../names-in-use.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ByteBudget } from '../../zookeeper/byte-budget.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import { SeenMembers, type GroupView } from './seen-members.js';

/** As the server at hand knows it. */
export async function describeGroupStale(
  zk: BoundClient,
  largeReads: ByteBudget,
  directory: string,
): Promise<GroupView> {
  const members = new SeenMembers(directory, largeReads);
  await members.read(zk);
  return members.view();
}

/** Members in the order of their names. */
export async function listMembers(
  zk: BoundClient,
  largeReads: ByteBudget,
  directory: string,
  page: Page,
): Promise<{ items: MemberView[]; next: string | undefined }> {
  const names = (await zk.fresh(() => zk.names(directory))).page(page);
  const read = (some: readonly string[]): Promise<(MemberView | undefined)[]> => {
    const paths = some.map((name) => `${directory}/${name}`);
    return readOfMany(zk, largeReads, paths, (node, at) => describeMember(some[at] as string, node));
  };
  const { items, end } = await readPage(names.slice(0, page.limit), read, ({ value }) => lengthShown(value));
  return { items, next: end < names.length ? names[end - 1] : undefined };
}

/** Groups that have members, in the order of their names. */
export function listGroups(
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: { name: string; memberCount: number }[]; next: string | undefined }> {
  return listInUse(zk, parent, page, (name, { stat }) => Promise.resolve({ name, memberCount: stat.numChildren }));
}
