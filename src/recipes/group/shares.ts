/**
 * Shares: `of` numbered parts divided among the members of a group.
 *
 * Guarantee: for one membership version every part has exactly one owner, the same at every replica; shares differ by
 *   at most one part, and a change of the membership moves as few parts as that allows (`divide.ts`).
 * Not guaranteed: that a member has noticed that a part is its neighbour's now. Lock a part if two owners must never
 * overlap.
 *
 * Layout:  <root>/ns/<namespace>/shares/<group>/<of>   data: the last division, and the membership that it was made for
 * Source:  what kazoo calls a partitioner. It is not a function of the membership alone: ADR 8 says why.
 *
 * 1. `sync`, then names and version of the membership (the group directory's `pzxid`) and the last division, one after
 *    the other on one connection. The division is for these names: that is the answer, of the version that it has.
 * 2. It is for others: divided anew from what was before, and written at the version that was read. That was the answer
 *    of everybody who asks from now on. A crash before the write leaves nothing, one after it the division.
 * 3. Written to meanwhile (BAD_VERSION, NODE_EXISTS): begin again; another replica has divided, for this membership or
 *    a later one.
 * 4. The names changed between the reading and the write: the division is that of a membership that was, and says so by
 *    its version. The next reading shows the change, and moves on from it. A replica that has read older names than the
 *    division is for reads again.
 * 5. Nobody is in the group: nobody owns anything, and nothing is written. Housekeeping removes divisions with their
 *    group.
 */
import type { BoundClient } from '../../zookeeper/bound.js';
import { isReason } from '../../zookeeper/errors.js';
import type { Listing, NodeData } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { divide, type Owners } from './divide.js';
import { digestOfNames, sortNames } from '../membership/member.js';

export interface Shares {
  /** Of the membership that this division was made for: higher for a later one. 0 where there is no directory. */
  version: number;
  /** Names the set of members, as `GroupState.membership`. */
  membership: string;
  memberCount: number;
  /** Members with at least one part, in the order of their names. */
  shares: { member: string; parts: number[] }[];
}

/** The data of a division; JSON. */
interface Division {
  version: number;
  shares: [member: string, parts: number[]][];
}

const LOOKS_MAX = 20;

export async function readShares(zk: BoundClient, directory: string, path: string, of: number): Promise<Shares> {
  for (let look = 0; ; look += 1) {
    const reading = (): Promise<[Listing | undefined, NodeData | undefined]> =>
      Promise.all([zk.list(directory), zk.find(path)]);
    const [listing, node] = await zk.fresh(reading);
    const names = sortNames(listing?.children ?? []);
    const version = listing?.stat.pzxid ?? 0;
    if (names.length === 0) return show({ version, shares: [] }, names);
    const last = node === undefined ? undefined : decode(node.data);
    if (last?.version === version) return show(last, names);
    // Divided for a later membership between the two readings. (Not after many looks: then the ensemble was restored
    // from a copy.)
    if (last !== undefined && last.version > version && look < LOOKS_MAX) continue;
    const owners = divide(of, names, last === undefined ? [] : ownersOf(last));
    const division: Division = { version, shares: sharesOf(owners) };
    if (await write(zk, path, division, node?.stat.version)) return show(division, names);
  }
}

/** @returns false when somebody else wrote */
async function write(zk: BoundClient, path: string, division: Division, version: number | undefined): Promise<boolean> {
  const data = Buffer.from(JSON.stringify(division));
  try {
    if (version === undefined) await zk.create(path, data);
    else await zk.set(path, data, version);
    return true;
  } catch (error) {
    if (isReason(error, 'NO_NODE') && version === undefined) await zk.ensure(parentOf(path));
    else if (!isReason(error, 'NODE_EXISTS', 'BAD_VERSION', 'NO_NODE')) throw error;
    return false;
  }
}

function show({ version, shares }: Division, names: readonly string[]): Shares {
  const membership = digestOfNames(names);
  return {
    version,
    membership,
    memberCount: names.length,
    shares: shares.map(([member, parts]) => ({ member, parts })),
  };
}

function sharesOf(owners: Owners): Division['shares'] {
  const shares = new Map<string, number[]>();
  for (const [part, owner] of owners.entries()) {
    if (owner === undefined) continue;
    const own = shares.get(owner);
    if (own === undefined) shares.set(owner, [part]);
    else own.push(part);
  }
  return [...shares].sort(([a], [b]) => (a < b ? -1 : 1));
}

function ownersOf({ shares }: Division): Owners {
  const owners: (string | undefined)[] = [];
  for (const [member, parts] of shares) for (const part of parts) owners[part] = member;
  return owners;
}

/** @returns undefined for what is no division: it is then as if there had been none */
function decode(data: Buffer): Division | undefined {
  try {
    const division = JSON.parse(data.toString('utf8')) as Division;
    return Number.isSafeInteger(division.version) && Array.isArray(division.shares) ? division : undefined;
  } catch {
    return undefined;
  }
}
