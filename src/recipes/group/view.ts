/**
 * What everybody may see of a group. One group is read behind a quorum, unless asked otherwise, a list of them after a
 * `sync`; requests of the same moment share a reading.
 */
import { lengthShown } from '../../json-text.js';
import type { Page } from '../../page.js';
import { describeMember, type MemberView } from '../membership/member.js';
import { listInUse, PAGE_LENGTH } from '../names-in-use.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ByteBudget } from '../../zookeeper/byte-budget.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import { SeenMembers, type GroupView } from './seen-members.js';

/** Of a page: with long values a few of these fill it. */
const READ_AT_ONCE = 200;

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
  const shown = names.slice(0, page.limit);
  const items: MemberView[] = [];
  let length = 0;
  for (let i = 0; i < shown.length; i += READ_AT_ONCE) {
    const batch = shown.slice(i, i + READ_AT_ONCE);
    const paths = batch.map((name) => `${directory}/${name}`);
    const found = await readOfMany(zk, largeReads, paths, (node, at) => describeMember(batch[at] as string, node));
    for (const item of found) {
      if (item === undefined) continue;
      length += lengthShown(item.value);
      if (items.length > 0 && length > PAGE_LENGTH) return { items, next: items.at(-1)?.member };
      items.push(item);
    }
  }
  return { items, next: names.length > page.limit ? shown.at(-1) : undefined };
}

/** Groups that have members, in the order of their names. */
export function listGroups(
  zk: BoundClient,
  parent: string,
  page: Page,
): Promise<{ items: { name: string; memberCount: number }[]; next: string | undefined }> {
  return listInUse(zk, parent, page, (name, { stat }) => Promise.resolve({ name, memberCount: stat.numChildren }));
}
