/**
 * What everybody may see of a group. Up to date: read after a `sync`, unless asked otherwise; requests of the same moment share a
 * reading. The ETag covers all members and their values, so all are read, in batches, though only the first 100 are shown.
 */
import { pageOfNames, type Page } from '../page.js';
import { unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import { describeMember, etagOfMembers, type MemberView } from './group-member.js';
import { SHOWN } from './line-view.js';
import { readNodes } from './read-nodes.js';

export interface GroupView {
  /** The first 100, in the order of their names. */
  members: MemberView[];
  memberCount: number;
  etag: string;
}

/** Names of members in the order in which they are shown, listed and numbered. */
export function sortNames(names: readonly string[]): string[] {
  return [...names].sort();
}

export async function describeGroup(
  { control }: Coordination,
  directory: string,
  deadline: number,
  stale = false,
): Promise<GroupView> {
  const [, listing] = await Promise.all([
    stale ? undefined : control.sync(directory, deadline),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
  ]);
  const names = sortNames(listing?.children ?? []);
  const nodes = await readNodes(
    control,
    names.map((name) => `${directory}/${name}`),
    deadline,
  );
  const members = names.flatMap((name, i) => {
    const node = nodes[i];
    return node === undefined ? [] : [{ name, node }];
  });
  return {
    members: members.slice(0, SHOWN).map(({ name, node }) => describeMember(name, node)),
    memberCount: members.length,
    etag: etagOfMembers(members.map(({ name, node: { stat } }) => [name, stat.czxid, stat.version])),
  };
}

/** Members in the order of their names. */
export async function listMembers(
  { control }: Coordination,
  directory: string,
  page: Page,
  deadline: number,
): Promise<{ items: MemberView[]; next: string | undefined }> {
  const [, listing] = await Promise.all([
    control.sync(directory, deadline),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
  ]);
  const names = pageOfNames(listing?.children ?? [], page);
  const shown = names.slice(0, page.limit);
  const nodes = await readNodes(
    control,
    shown.map((name) => `${directory}/${name}`),
    deadline,
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
export async function listGroups(
  { control, layout }: Coordination,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: { name: string; memberCount: number }[]; next: string | undefined }> {
  const parent = layout.groups(namespace);
  await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const items: { name: string; memberCount: number }[] = [];
  for (let i = 0; i < names.length; i += page.limit) {
    const batch = names.slice(i, i + page.limit);
    const stats = await Promise.all(batch.map((name) => control.exists(layout.group(namespace, name), deadline)));
    for (const [at, name] of batch.entries()) {
      const memberCount = stats[at]?.numChildren ?? 0;
      if (memberCount === 0) continue;
      if (items.length === page.limit) return { items, next: items.at(-1)?.name };
      items.push({ name, memberCount });
    }
  }
  return { items, next: undefined };
}
