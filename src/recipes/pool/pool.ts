/**
 * Pool held by leases: numbers, or named members with labels, of which each caller is told which ones it got.
 *
 * Guarantee: no member has two holders, as ZooKeeper sees it, whatever replicas believe. Members are given out in
 * strict
 *   order of arrival: a request for many, or for a rare label, is not overtaken. A member whose holder was lost (its
 *   lease expired) is given to nobody until `quarantineMs` have passed since that was found; one that was released, or
 *   whose lease was ended on purpose, is free at once. Whoever asks for the same as before, under the name of the same
 *   owner, gets it if it is free. Every hold has a fencing token, higher than all that were given before in that pool.
 * Changing the members takes nothing away: who has a member that was removed, or is drained, goes on having it.
 * Not guaranteed: that a paused holder has noticed that its lease ended. Let the member check the fencing token.
 *
 * Layout:  <root>/ns/<namespace>/pools/<name>                persistent; data = its id and members ({@link Pool})
 *          <root>/ns/<namespace>/pool-lines/<name>/_c_…      who wants members, in line; see `line/`
 *          <root>/ns/<namespace>/pool-held/<id>/<member>     ephemeral, of the lease's session; data = {@link PoolHold}
 *          <root>/ns/<namespace>/pool-marks/<id>/<mark>      persistent; see `marks.ts`
 * Source:  none; ADR 30 walks through it.
 *
 * Reading order: this; `marks.ts`; `choose.ts`; `state.ts`; `acquire.ts` with `assign.ts` and `rest.ts`; `release.ts`;
 * `pools.ts`; `tidy.ts`.
 */
import { StandingConflictError } from '../../errors.js';
import type { Layout } from '../../leases/layout.js';
import { expectKnown, type KnownFields } from '../known-record.js';
import type { NodeData } from '../../zookeeper/operations.js';

/** Below the MiB that a node may have. */
export const DEFINITION_BYTES_MAX = 768 * 1024;

/** One name in one namespace. */
export interface PoolRef {
  readonly namespace: string;
  readonly name: string;
  readonly path: string;
}

export interface Member {
  readonly id: string;
  readonly labels: readonly string[];
  /** Given to nobody any more. */
  readonly drained: boolean;
  /** The value that its holders are told. */
  readonly data?: unknown;
}

/** What a pool is set to: so many numbers from 0, or members with names. */
export type PoolConfig = { readonly quarantineMs: number } & (
  { readonly of: number } | { readonly members: readonly Member[] }
);

export type Pool = PoolConfig & {
  /** Of its contents. */
  readonly id: string;
  /** Of the definition's node. */
  readonly version: number;
};

/** What the node of a held member says. */
export interface PoolHold {
  readonly pool: string;
  readonly holdId: string;
  /** Finds it again for the request that was given it (`Lease.guid`). */
  readonly guid: string;
  /** Which attempt of that request (`line/contender.ts`). */
  readonly attempt: string;
  readonly leaseId: string;
  readonly principal: string;
  readonly label: string;
  readonly owner: string;
  readonly requestId: string;
  readonly fencingToken: number;
  /** Of the mark that was made with it. */
  readonly mark: string;
  /** Epoch ms on the ensemble's clock. */
  readonly since: number;
}

export function poolRef(layout: Layout, namespace: string, name: string): PoolRef {
  return { namespace, name, path: layout.pool(namespace, name) };
}

export function encodePool(id: string, config: PoolConfig): Buffer {
  return Buffer.from(JSON.stringify({ id, ...config }));
}

interface StoredPool {
  id: string;
  quarantineMs: number;
  of: number;
  members: readonly Member[];
}

const KNOWN_POOL: KnownFields<StoredPool> = { id: true, quarantineMs: true, of: true, members: true };
const KNOWN_MEMBER: KnownFields<Member> = { id: true, labels: true, drained: true, data: true };

/**
 * @returns undefined for what somebody else has put there
 * @throws NewerRecordError
 */
export function parsePool(name: string, { data, stat }: Pick<NodeData, 'data' | 'stat'>): Pool | undefined {
  const pool = parseStored(data);
  if (typeof pool?.id !== 'string') return undefined;
  expectKnown(`the pool "${name}"`, pool, KNOWN_POOL);
  if (typeof pool.of !== 'number' && !Array.isArray(pool.members)) return undefined;
  for (const member of pool.members ?? []) expectKnown(`a member of the pool "${name}"`, member, KNOWN_MEMBER);
  return { ...(pool as StoredPool), version: stat.version };
}

function parseStored(data: Buffer): Partial<StoredPool> | undefined {
  try {
    return JSON.parse(data.toString('utf8')) as Partial<StoredPool>;
  } catch {
    return undefined;
  }
}

/** @throws StandingConflictError for what is no pool; NewerRecordError */
export function decodePool(name: string, node: Pick<NodeData, 'data' | 'stat'>): Pool {
  const pool = parsePool(name, node);
  if (pool === undefined)
    throw new StandingConflictError(`The znode of the pool "${name}" holds something else: it is no pool.`, { name });
  return pool;
}

export function encodeHold(hold: PoolHold): Buffer {
  return Buffer.from(JSON.stringify(hold));
}

/** @returns undefined for what somebody else has put there */
export function parseHold(data: Buffer): PoolHold | undefined {
  try {
    const hold = JSON.parse(data.toString('utf8')) as Partial<PoolHold>;
    return typeof hold.holdId === 'string' && typeof hold.mark === 'string' ? (hold as PoolHold) : undefined;
  } catch {
    return undefined;
  }
}

/** The members in their order, drained ones included. */
export function membersOf(config: PoolConfig): readonly Member[] {
  if ('members' in config) return config.members;
  return Array.from({ length: config.of }, (_, i) => ({ id: String(i), labels: [], drained: false }));
}

/** The members that a request for these labels may be given. */
export function fitting(config: PoolConfig, labels: readonly string[]): readonly Member[] {
  return membersOf(config).filter(
    (member) => !member.drained && labels.every((label) => member.labels.includes(label)),
  );
}
