/**
 * A lease's holds and waiting places, found from the paths of its session's nodes.
 *
 * Reading order: this; `places.ts`; `held-claims.ts` and `participations.ts`; `events.ts`.
 */
import { LINE_KINDS, ROOM, type Layout, type PlaceKind } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { baseName, parentOf } from '../../zookeeper/paths.js';
import { readOfMany } from '../../zookeeper/read-nodes.js';
import type { Coordination } from '../coordination.js';
import { decodeMember, memberIdOf } from '../membership/member.js';
import { decodeRound, isInRound, READY } from '../double-barrier/round.js';
import { parseHold } from '../pool/pool.js';
import { groupBy, inBatches, type OwnHold } from './own-hold.js';
import { OwnPlaces } from './places.js';

/** Where something is held. */
type Holding = PlaceKind | 'group' | 'double-barrier' | 'pool-member';

/** @param paths of the session's ephemeral nodes; those that are no holds are left out */
export async function describeHolds(
  context: Coordination,
  zk: BoundClient,
  lease: Lease,
  paths: readonly string[],
): Promise<OwnHold[]> {
  const { layout } = context;
  const own = groupBy(paths, (path) => kindOf(layout, lease.namespace, path));
  own.delete(undefined);
  if (own.size === 0) return [];
  const places = new OwnPlaces(context, zk, lease);
  // The lease's session is up to date, the control session need not be: it would show a hold as lost, or as not yet
  // granted.
  const [, ...holds] = await Promise.all([
    zk.sync(layout.namespace(lease.namespace)),
    ...[...own].map(([kind, those]) => {
      if (kind === 'group' || kind === 'double-barrier') return describeMemberships(context, zk, kind, those);
      if (kind === 'pool-member') return describeMembers(context, zk, those);
      return places.describe(kind as PlaceKind, those);
    }),
  ]);
  // A place that has gone from a room into the line may have been listed in both.
  const shown = new Map(holds.flat().map((hold) => [hold.path, hold]));
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

async function describeMemberships(
  { control }: Coordination,
  zk: BoundClient,
  kind: 'group' | 'double-barrier',
  paths: readonly string[],
): Promise<OwnHold[]> {
  const stats = await readOfMany(zk, control.largeReads, paths, ({ data, stat }) =>
    decodeMember(data) === undefined ? undefined : stat,
  );
  const own = paths.flatMap((path, i) => (stats[i] === undefined ? [] : [{ path, stat: stats[i] }]));
  const holds: OwnHold[] = [];
  for (const batch of inBatches([...groupBy(own, ({ path }) => parentOf(path))])) {
    const ready = await Promise.all(
      batch.map(async ([directory]) => (kind === 'group' ? undefined : zk.find(`${directory}/${READY}`))),
    );
    for (const [i, [directory, members]] of batch.entries()) {
      const round = ready[i] === undefined ? undefined : decodeRound(ready[i]);
      for (const { path, stat } of members) {
        const member = baseName(path);
        holds.push({
          kind,
          name: baseName(directory),
          member,
          path,
          held: kind === 'group' || (round !== undefined && isInRound(round, member, stat.czxid)),
          holdId: memberIdOf(stat),
          requestId: '',
          fencingToken: stat.czxid,
          since: stat.ctime,
        });
      }
    }
  }
  return holds;
}

/** Members of pools; a place in a pool's line is one like others, which is never a hold. */
async function describeMembers(
  { control }: Coordination,
  zk: BoundClient,
  paths: readonly string[],
): Promise<OwnHold[]> {
  const holds = await readOfMany(zk, control.largeReads, paths, ({ data }) => parseHold(data));
  return paths.flatMap((path, i) => {
    if (holds[i] === undefined) return [];
    const { pool, holdId, requestId, fencingToken, since } = holds[i];
    const member = baseName(path);
    return [{ kind: 'pool' as const, name: pool, member, path, held: true, holdId, requestId, fencingToken, since }];
  });
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
