/** What everybody may see of a double barrier. Up to date: read after a `sync`, unless asked otherwise. */
import { pageOfNames, type Page } from '../page.js';
import { unless } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';
import { describeMember, type MemberView } from './group-member.js';
import { sortNames } from './group-view.js';
import { SHOWN } from './line-view.js';
import { readNodes } from './read-nodes.js';
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

/** Of two states: whether a round goes on, and which. Who gathers wakes nobody. */
export function etagOfRound(round: Round | undefined): string {
  return `"${round?.czxid ?? 0}"`;
}

export async function describeDoubleBarrier(
  { control }: Coordination,
  directory: string,
  deadline: number,
  stale = false,
): Promise<DoubleBarrierView> {
  const [, parent, listing, ready] = await Promise.all([
    stale ? undefined : control.sync(directory, deadline),
    unless(control.getData(directory, deadline), 'NO_NODE'),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
    unless(control.getData(`${directory}/${READY}`, deadline), 'NO_NODE'),
  ]);
  const round = ready === undefined ? undefined : decodeRound(ready);
  const names = sortNames((listing?.children ?? []).filter((name) => name !== READY));
  return {
    size: parent === undefined || names.length === 0 ? undefined : decodeSize(parent.data),
    round,
    members: await describeEntrants(control, directory, names.slice(0, SHOWN), round, deadline),
    memberCount: names.length,
  };
}

/** Members in the order of their names. */
export async function listEntrants(
  { control }: Coordination,
  directory: string,
  page: Page,
  deadline: number,
): Promise<{ items: EntrantView[]; next: string | undefined }> {
  const [, listing, ready] = await Promise.all([
    control.sync(directory, deadline),
    unless(control.getChildren(directory, deadline), 'NO_NODE'),
    unless(control.getData(`${directory}/${READY}`, deadline), 'NO_NODE'),
  ]);
  const names = pageOfNames(
    (listing?.children ?? []).filter((name) => name !== READY),
    page,
  );
  const shown = names.slice(0, page.limit);
  const round = ready === undefined ? undefined : decodeRound(ready);
  return {
    items: await describeEntrants(control, directory, shown, round, deadline),
    next: names.length > page.limit ? shown.at(-1) : undefined,
  };
}

/** Double barriers that somebody is in, in the order of their names. */
export async function listDoubleBarriers(
  context: Coordination,
  namespace: string,
  page: Page,
  deadline: number,
): Promise<{ items: (DoubleBarrierView & { name: string })[]; next: string | undefined }> {
  const { control, layout } = context;
  const parent = layout.doubleBarriers(namespace);
  await control.sync(parent, deadline);
  const names = pageOfNames((await unless(control.getChildren(parent, deadline), 'NO_NODE'))?.children ?? [], page);
  const items: (DoubleBarrierView & { name: string })[] = [];
  for (let i = 0; i < names.length; i += page.limit) {
    const batch = names.slice(i, i + page.limit);
    const stats = await Promise.all(
      batch.map((name) => control.exists(layout.doubleBarrier(namespace, name), deadline)),
    );
    const used = batch.filter((_, at) => (stats[at]?.numChildren ?? 0) > 0);
    const views = await Promise.all(
      used.map((name) => describeDoubleBarrier(context, layout.doubleBarrier(namespace, name), deadline, true)),
    );
    for (const [at, view] of views.entries()) {
      if (view.memberCount === 0) continue;
      if (items.length === page.limit) return { items, next: items.at(-1)?.name };
      items.push({ ...view, name: used[at] as string });
    }
  }
  return { items, next: undefined };
}

async function describeEntrants(
  control: Coordination['control'],
  directory: string,
  names: readonly string[],
  round: Round | undefined,
  deadline: number,
): Promise<EntrantView[]> {
  const nodes = await readNodes(
    control,
    names.map((name) => `${directory}/${name}`),
    deadline,
  );
  return names.flatMap((name, i) => {
    const node = nodes[i];
    if (node === undefined) return [];
    return [{ ...describeMember(name, node), entered: round !== undefined && isInRound(round, name, node.stat.czxid) }];
  });
}
