/**
 * Overtaking: candidates that stand between the leader and another one make way for it, once (protocol C80, C96).
 *
 * The fencing token of a leader is the czxid of its node, so nobody who came earlier may lead after one who came later:
 * who is overtaken needs a new node, which only its own session can make. So its node is deleted, in one transaction
 * with a record that tells its lease.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import type { MultiOperation, NodeData } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { decodeRecord, type Contender } from '../line/contender.js';
import { describeContender, type ContenderView } from '../line/describe.js';
import { tailThere } from '../line/revocation/break-hold.js';
import { encodeRevocation } from '../line/revocation/record.js';

const KIND = 'election';

export interface Standing {
  contender: Contender;
  node: NodeData;
  view: ContenderView;
}

/** Those who still stand. */
export async function readStanding(
  zk: BoundClient,
  directory: string,
  contenders: readonly Contender[],
): Promise<readonly Standing[]> {
  const nodes = await Promise.all(contenders.map(({ name }) => zk.find(`${directory}/${name}`)));
  return contenders.flatMap((contender, i) => {
    const node = nodes[i];
    return node === undefined ? [] : [{ contender, node, view: describeContender(contender, node) }];
  });
}

/**
 * What removes candidates that make way for another one, and tells their leases: their waiting campaigns stand again
 * (`againIfOvertaken`).
 */
export async function overtake(
  { layout }: Pick<Coordination, 'layout'>,
  zk: BoundClient,
  { namespace, name, preferred }: { namespace: string; name: string; preferred?: true },
  between: readonly Standing[],
): Promise<MultiOperation[]> {
  const directory = layout.line(KIND, namespace, name);
  const each = between.map(async ({ contender, node, view }): Promise<MultiOperation[]> => {
    const { leaseId, holdId } = view;
    const { czxid, version } = node.stat;
    const path = `${directory}/${contender.name}`;
    const { attempt: overtaken, candidate } = decodeRecord(node.data) ?? {};
    const gone = { state: 'broken', kind: KIND, namespace, name, path, czxid } as const;
    const data = encodeRevocation({ ...gone, overtaken, preferred, passed: candidate?.passed });
    const [tail] = await Promise.all([tailThere(zk, path), zk.ensure(layout.revocationsOf(leaseId))]);
    return [
      { type: 'delete', path, version },
      ...tail,
      { type: 'create', path: layout.revocation(leaseId, holdId), data },
    ];
  });
  return (await Promise.all(each)).flat();
}
