/**
 * One round of a double barrier: those who have entered together. It is the data of the node `ready`:
 *
 *   {"round": [[member, leaseId], …]}   of Postern's rounds
 *   anything else, mostly nothing      Curator or kazoo found enough members: then all members that are older than
 *                                      `ready` are in the round
 *
 * Who is in it? A name that stands in the data, while its node is older than
 * `ready`. The transaction that makes `ready` checks that each of them exists, so whichever node of that name is older
 * was there at that moment; one that is younger has entered again since, and is not in this round. So nothing has to be
 * told apart by more than two zxids (protocol C10, C30).
 */
import type { ReadNode } from '../../zookeeper/read-nodes.js';

export interface Round {
  /** Of `ready`: when the round began. */
  readonly czxid: number;
  /** Epoch ms on the ensemble's clock. */
  readonly since: number;
  /** LeaseIds by member; undefined of a round that another client found complete. */
  readonly members: ReadonlyMap<string, string> | undefined;
}

export const READY = 'ready';

export function encodeRound(members: Iterable<readonly [member: string, leaseId: string]>): Buffer {
  return Buffer.from(JSON.stringify({ round: [...members] }));
}

export function decodeRound({ data, stat }: ReadNode): Round {
  return { czxid: stat.czxid, since: stat.ctime, members: membersIn(data) };
}

/** Of two states: whether a round goes on, and which. Who gathers wakes nobody. */
export function etagOfRound(round: Round | undefined): string {
  return `"${round?.czxid ?? 0}"`;
}

export function isInRound({ czxid, members }: Round, member: string, memberCzxid: number): boolean {
  return memberCzxid < czxid && (members === undefined || members.has(member));
}

function membersIn(data: Buffer): Round['members'] {
  try {
    const { round } = JSON.parse(data.toString('utf8')) as { round?: unknown };
    return Array.isArray(round) ? new Map(round as [string, string][]) : undefined;
  } catch {
    return undefined;
  }
}

/** What the directory tells of the size: that of whoever came first when it was empty. */
export function encodeSize(size: number): Buffer {
  return Buffer.from(JSON.stringify({ size }));
}

export function decodeSize(data: Buffer): number | undefined {
  try {
    const { size } = JSON.parse(data.toString('utf8')) as { size?: unknown };
    return Number.isSafeInteger(size) ? (size as number) : undefined;
  } catch {
    return undefined;
  }
}
