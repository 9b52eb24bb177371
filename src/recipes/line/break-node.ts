/**
 * The nodes of a line as they lie in ZooKeeper, and the removal of one that does not go by itself: a persistent node
 * that some program has left, the node of a program that is not Postern's and will not let go, or a reservation. For
 * administrators, who name the very node and the version that they have seen (protocol C59).
 *
 * What belongs to a lease of ours is not removed here but revoked: only then is the lease told (`revocation/`).
 */
import { PosternError, StandingConflictError } from '../../errors.js';
import type { Awaited } from '../../time.js';
import { isReason } from '../../zookeeper/errors.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { AGAIN, persisting } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { readLinePage, type LinePage } from '../line-page.js';
import { isOwnName, parseContender, sortLine, type Contender } from './contender.js';
import { describeContender, type ContenderView } from './describe.js';
import { reservationThere } from './revocation/break-hold.js';
import type { LineName } from './view.js';

export interface LineNode {
  node: string;
  version: number;
  /** Goes with the session that made it. */
  ephemeral: boolean;
  /** Epoch ms on the ensemble's clock. */
  madeAt: number;
  view: ContenderView;
  breakable: boolean;
}

export interface BreakNode extends LineName, Awaited {
  node: string;
  version: number;
}

/** In line order; by a quorum. */
export async function listNodes(
  { control, layout }: Coordination,
  { kind, namespace, name }: LineName,
  page: LinePage,
  deadline: number,
): Promise<{ items: LineNode[]; next: string | undefined }> {
  const zk = control.until(deadline);
  const directory = layout.line(kind, namespace, name);
  return zk.fresh(async () => {
    return readLinePage(sortLine(await zk.children(directory)), page, async (wanted) => {
      const nodes = await Promise.all(wanted.map((contender) => zk.find(`${directory}/${contender.name}`)));
      const items = nodes.flatMap((node, i) => (node === undefined ? [] : [describe(wanted[i] as Contender, node)]));
      return { items, end: wanted.length };
    });
  });
}

/**
 * Removes a node at the version that the caller has seen.
 * @throws PosternError `not-found`, `version-mismatch`, or `conflict` for what belongs to a lease; NoReplyError,
 *   ClientGoneError
 */
export async function breakNode(context: Coordination, request: BreakNode): Promise<void> {
  const { kind, namespace, name, node, version, deadline, requester } = request;
  const { control, layout, metrics } = context;
  const contender = parseContender(node);
  const path = `${layout.line(kind, namespace, name)}/${node}`;
  const zk = control.writingFor(requester).until(deadline);
  await persisting('the removal of the node', deadline, async (maybeApplied) => {
    const found = contender === undefined ? undefined : await zk.fresh(() => zk.find(path));
    if (found === undefined || contender === undefined) {
      if (maybeApplied) return;
      throw new PosternError('not-found', `There is no node "${node}" in the line of ${kind} "${name}".`);
    }
    checkBreakable(describe(contender, found), request);
    try {
      const reservation = await reservationThere(zk, layout, namespace, found);
      await zk.multi([{ type: 'delete', path, version }, ...reservation]);
    } catch (error) {
      if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return AGAIN;
      throw error;
    }
  });
  metrics.revocationsTotal.inc({ kind, outcome: 'broken' });
}

function describe(contender: Contender, node: NodeData): LineNode {
  const { version, ephemeralOwner, ctime } = node.stat;
  const ephemeral = ephemeralOwner !== 0n;
  return {
    node: contender.name,
    version,
    ephemeral,
    madeAt: ctime,
    view: describeContender(contender, node),
    breakable: !ephemeral || !isOwnName(contender.name),
  };
}

function checkBreakable(found: LineNode, { kind, name, node, version }: BreakNode): void {
  if (!found.breakable)
    throw new StandingConflictError(
      `The node "${node}" in the line of ${kind} "${name}" belongs to lease ${found.view.leaseId}; revoke the hold, so that the lease is told, or end the lease.`,
    );
  if (found.version !== version)
    throw new PosternError(
      'version-mismatch',
      `The node "${node}" in the line of ${kind} "${name}" is at version ${found.version}, not ${version}: somebody has written to it since.`,
      { members: { version: found.version } },
    );
}
