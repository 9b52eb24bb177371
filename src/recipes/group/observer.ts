/**
 * Observes the members of a group, for long polls and event streams (`observing/observers.ts`): one recursive watch per
 * group and replica. A change costs one notification and the reading of the one member that came, went or wrote,
 * whatever the number of members and subscribers.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import type { ControlSession } from '../../zookeeper/control-session.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { describeMember, digestOfNames, etagOfMembers, sortNames } from '../membership/member.js';
import type { GroupView } from './view.js';
import { SHOWN } from '../line/view.js';
import { lookAtTree } from '../observing/looks.js';
import { Observers, type Subject } from '../observing/observers.js';
import { readNodes, type ReadNode } from '../../zookeeper/read-nodes.js';

export interface GroupState extends GroupView {
  /** Names the set of members alone, whatever their values. */
  membership: string;
}

export type GroupObservers = Observers<Subject, GroupState>;

/** Of all groups of one replica. */
export function groupObservers(control: ControlSession): GroupObservers {
  return new Observers(control, ({ path: directory }, look) => {
    const members = new Map<string, ReadNode>();
    return lookAtTree(control, directory, look, async ({ changed, zk }) => {
      const paths = changed?.filter((path) => parentOf(path) === directory) ?? (await list(zk, directory));
      const nodes = await readNodes(zk, paths);
      if (changed === undefined) members.clear();
      for (const [i, path] of paths.entries()) {
        const node = nodes[i];
        if (node === undefined) members.delete(baseName(path));
        else members.set(baseName(path), node);
      }
      look.publish(stateOf(members));
    });
  });
}

async function list(zk: BoundClient, directory: string): Promise<string[]> {
  return (await zk.children(directory)).map((name) => `${directory}/${name}`);
}

function stateOf(members: ReadonlyMap<string, ReadNode>): GroupState {
  const names = sortNames([...members.keys()]);
  const nodeOf = (name: string): ReadNode => members.get(name) as ReadNode;
  return {
    members: names.slice(0, SHOWN).map((name) => describeMember(name, nodeOf(name))),
    memberCount: names.length,
    etag: etagOfMembers(names.map((name) => [name, nodeOf(name).stat.czxid, nodeOf(name).stat.version])),
    membership: digestOfNames(names),
  };
}
