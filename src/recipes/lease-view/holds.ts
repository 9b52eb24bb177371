/**
 * A lease's holds and waiting places, found from the paths of its session's nodes.
 *
 * Reading order: this; `held-claims.ts` and `participations.ts`; `events.ts`.
 */
import { LINE_KINDS, ROOM, type Layout, type LineKind, type PlaceKind } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import type { NodeData } from '../../zookeeper/operations.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { readRule } from '../line/permits/agreement.js';
import { decodeRecord, guidOf, holdIdOf, isPrepared, sortLine, type ContenderRecord } from '../line/contender.js';
import type { Coordination } from '../coordination.js';
import { delayBeside } from '../line/delay/lock-delay.js';
import { readLineDirectory } from '../line/directory.js';
import { heedForeignRevoke, isOverwritten, type OverwrittenHold } from '../line/revocation/foreign.js';
import { decodeMember, memberIdOf } from '../membership/member.js';
import { decodeRound, isInRound, READY } from '../double-barrier/round.js';
import { parseHold } from '../pool/pool.js';

const READS_AT_ONCE = 256;

/** What can be held: a place in a line, a membership, or a member of a pool. */
export type HoldKind = LineKind | 'group' | 'double-barrier';

/** Where something is held. */
type Holding = PlaceKind | 'group' | 'double-barrier' | 'pool-member';

export interface OwnHold {
  kind: HoldKind;
  name: string;
  /** Of a membership: the member's name; of a pool: the member that is held. */
  member?: string;
  path: string;
  held: boolean;
  /**
   * A place that the line admits, and that is granted as soon as its request is repeated: the wait of the last one is
   * over.
   */
  isTurn?: boolean;
  holdId: string;
  requestId: string;
  fencingToken: number;
  /** Epoch ms on the ensemble's clock. */
  since: number;
}

/** @param paths of the session's ephemeral nodes; those that are no holds are left out */
export async function describeHolds(
  context: Coordination,
  zk: BoundClient,
  lease: Lease,
  paths: readonly string[],
): Promise<OwnHold[]> {
  const { layout } = context;
  const own = paths.flatMap((path) => {
    const kind = kindOf(layout, lease.namespace, path);
    return kind === undefined ? [] : [{ kind, path }];
  });
  if (own.length === 0) return [];
  // The lease's session is up to date, the control session need not be: it would show a hold as lost, or as not yet
  // granted.
  const [, ...holds] = await Promise.all([
    zk.sync(layout.namespace(lease.namespace)),
    ...own.map(({ kind, path }) =>
      kind === 'group' || kind === 'double-barrier'
        ? describeMembership(zk, kind, path)
        : kind === 'pool-member'
          ? describeMember(zk, path)
          : describeHold(context, zk, lease, kind, path),
    ),
  ]);
  // A place that has gone from a room into the line may have been listed in both.
  const shown = new Map(holds.filter((hold) => hold !== undefined).map((hold) => [hold.path, hold]));
  return [...shown.values()].sort((a, b) => a.fencingToken - b.fencingToken);
}

/**
 * The same, found from outside: not through the lease's session, which a look would keep alive (and with it the holds
 * of a client that is gone). ZooKeeper tells only a session itself what it owns, so this walks through all lines,
 * groups and double barriers of the namespace: for people, not for programs.
 */
export async function findHolds(context: Coordination, zk: BoundClient, lease: Lease): Promise<OwnHold[]> {
  const { layout } = context;
  await zk.sync(layout.namespace(lease.namespace));
  const parents = [...parentsOf(layout, lease.namespace).values()];
  const listings = await Promise.all(parents.map((path) => zk.children(path)));
  const directories = listings.flatMap((names, i) => names.map((name) => `${parents[i]}/${name}`));
  const paths: string[] = [];
  for (const batch of inBatches(directories)) {
    const lines = await Promise.all(batch.map((path) => zk.children(path)));
    const contenders = lines.flatMap((line, i) => line.map((child) => `${batch[i] as string}/${child}`));
    for (const some of inBatches(contenders)) {
      const stats = await Promise.all(some.map((path) => zk.exists(path)));
      paths.push(...some.filter((_, i) => stats[i]?.ephemeralOwner === lease.sessionId));
    }
  }
  return describeHolds(context, zk, lease, paths);
}

function inBatches<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / READS_AT_ONCE) }, (_, i) =>
    items.slice(i * READS_AT_ONCE, (i + 1) * READS_AT_ONCE),
  );
}

async function describeHold(
  context: Coordination,
  zk: BoundClient,
  lease: Lease,
  where: PlaceKind,
  path: string,
): Promise<OwnHold | undefined> {
  const kind = where === ROOM ? 'lock' : where;
  const directory = parentOf(path);
  const [node, listing, rule] = await Promise.all([zk.find(path), zk.list(directory), readRule(zk, where, directory)]);
  if (node === undefined && where === ROOM) return describeMoved(context, zk, lease, path);
  if (node === undefined || listing === undefined) return undefined;
  const line = sortLine(listing.children);
  const isExcluded = async (): Promise<boolean> =>
    readLineDirectory(listing.stat).delays &&
    (await delayBeside(context, zk, directory, line, listing.zxid)) !== undefined;
  const index = line.findIndex(({ name }) => name === baseName(path));
  const contender = line[index];
  if (contender === undefined) return undefined;
  const record =
    isOverwritten(kind, path, node.data) && index < rule.admitted(line)
      ? await heed(
          context,
          lease,
          { kind, namespace: lease.namespace, name: baseName(directory), path },
          node,
          zk.deadline,
        )
      : decodeRecord(node.data);
  if (record === undefined || isPrepared(record)) return undefined;
  const isNext =
    index < rule.admitted(line) &&
    (where !== ROOM ||
      (await zk.children(context.layout.line(kind, lease.namespace, baseName(directory)))).length === 0);
  const admitted = where !== ROOM && index < rule.holding(line);
  const held = admitted && (rule.leads || (record.state === 'granted' && !(await isExcluded())));
  const isUnasked = record.waitUntil !== undefined && record.waitUntil < context.zooKeeperClock.now();
  return {
    kind,
    name: baseName(directory),
    path,
    held,
    isTurn: !held && isUnasked && isNext,
    holdId: holdIdOf(contender, node.stat),
    requestId: record.requestId,
    fencingToken: node.stat.czxid,
    since: held ? (record.grantedAt ?? node.stat.ctime) : node.stat.ctime,
  };
}

/** A place that was in a room when that was listed: its turn may have come since. */
async function describeMoved(
  context: Coordination,
  zk: BoundClient,
  lease: Lease,
  path: string,
): Promise<OwnHold | undefined> {
  const directory = context.layout.line('lock', lease.namespace, baseName(parentOf(path)));
  const guid = guidOf(baseName(path));
  await zk.sync(directory);
  const moved = (await zk.children(directory)).find((name) => guid !== undefined && guidOf(name) === guid);
  return moved === undefined ? undefined : describeHold(context, zk, lease, 'lock', `${directory}/${moved}`);
}

/** The lease looks at a hold that a foreign client has asked for: it is told, and the hold is readable again. */
async function heed(
  context: Coordination,
  { namespace, leaseId }: Lease,
  hold: OverwrittenHold,
  node: NodeData,
  deadline: number,
): Promise<ContenderRecord | undefined> {
  const record = await context.leases.records.find(namespace, leaseId, deadline);
  return record === undefined ? undefined : heedForeignRevoke(context, hold, node, record, deadline);
}

async function describeMembership(
  zk: BoundClient,
  kind: 'group' | 'double-barrier',
  path: string,
): Promise<OwnHold | undefined> {
  const member = baseName(path);
  const [node, ready] = await Promise.all([
    zk.find(path),
    kind === 'group' ? undefined : zk.find(`${parentOf(path)}/${READY}`),
  ]);
  if (node === undefined || decodeMember(node.data) === undefined) return undefined;
  const isIn = ready !== undefined && isInRound(decodeRound(ready), member, node.stat.czxid);
  return {
    kind,
    name: baseName(parentOf(path)),
    member,
    path,
    held: kind === 'group' || isIn,
    holdId: memberIdOf(node.stat),
    requestId: '',
    fencingToken: node.stat.czxid,
    since: node.stat.ctime,
  };
}

/** A member of a pool; a place in the pool's line is one like others, which is never a hold. */
async function describeMember(zk: BoundClient, path: string): Promise<OwnHold | undefined> {
  const node = await zk.find(path);
  const hold = node === undefined ? undefined : parseHold(node.data);
  if (hold === undefined) return undefined;
  const { pool, holdId, requestId, fencingToken, since } = hold;
  return { kind: 'pool', name: pool, member: baseName(path), path, held: true, holdId, requestId, fencingToken, since };
}

/** Where the directories are in which something can be held. */
function parentsOf(layout: Layout, namespace: string): Map<Holding, string> {
  // The room before the line, as its places go.
  const lines = [ROOM, ...LINE_KINDS].map((kind): [Holding, string] => [kind, layout.lines(kind, namespace)]);
  return new Map([
    ...lines,
    ['group', layout.groups(namespace)],
    ['double-barrier', layout.doubleBarriers(namespace)],
    ['pool-member', layout.allPoolHolds(namespace)],
  ]);
}

/** What a node of a lease is; undefined for its other nodes. */
function kindOf(layout: Layout, namespace: string, path: string): Holding | undefined {
  for (const [kind, parent] of parentsOf(layout, namespace)) if (path.startsWith(`${parent}/`)) return kind;
  return undefined;
}
