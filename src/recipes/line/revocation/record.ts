/** The record of a revocation, and its entry in the list. See `revocation.ts`. */
import type { Layout, LineKind } from '../../../leases/layout.js';
import type { BoundClient } from '../../../zookeeper/bound.js';
import { isTransient, unless } from '../../../zookeeper/errors.js';
import type { Coordination } from '../../coordination.js';
import type { ContenderRecord } from '../contender.js';
import type { JoinRequest } from '../join/request.js';

export interface RevocationRecord {
  state: 'pending' | 'broken';
  kind: LineKind;
  namespace: string;
  name: string;
  /** Of the hold's node, and which incarnation of it (protocol C10). */
  path: string;
  czxid: number;
  /** Epoch ms on the ensemble's clock. Without it the hold is only asked for. */
  breakAt?: number;
  reason?: string;
  /** Of a leader that is to make way for this candidate's node: it is broken only while that stands. */
  successor?: string;
  /**
   * Of a candidacy that waited, and made way for another (`election/transfer.ts`): the attempt that wrote its node
   * last.
   */
  overtaken?: string | undefined;
  /** It made way for one that is preferred more (`election/preference.ts`). */
  preferred?: true | undefined;
  /** How often it had made way before, as its node said. */
  passed?: number | undefined;
}

/** A revocation as its lease is told of it. */
export type Notice = RevocationRecord & { holdId: string };

export function encodeRevocation(record: RevocationRecord): Buffer {
  return Buffer.from(JSON.stringify(record));
}

export function decodeRevocation(data: Buffer): RevocationRecord {
  return JSON.parse(data.toString('utf8')) as RevocationRecord;
}

/** Why what a notice of the state `broken` speaks of is gone: a hold that was revoked, or a place in line. */
export function lossOf({ overtaken }: Notice): 'broken' | 'overtaken' {
  return overtaken === undefined ? 'broken' : 'overtaken';
}

/** A place in line as the request knows it that stood in it. */
interface PlaceLost {
  holdId: string;
  record: ContenderRecord;
}

/**
 * The request that stands again, behind all others, for a place that is gone because it made way for another candidate.
 * @returns undefined when that is not why it is gone, or another attempt had the place before
 */
export async function againIfOvertaken<T extends Pick<JoinRequest, 'data' | 'candidate' | 'notice' | 'again'>>(
  { control, layout }: Pick<Coordination, 'control' | 'layout'>,
  { holdId, record: { leaseId, attempt, data, candidate } }: PlaceLost,
  request: T,
  deadline: number,
): Promise<T | undefined> {
  const path = layout.revocation(leaseId, holdId);
  const zk = control.until(deadline);
  await zk.sync(path);
  const node = await zk.find(path);
  const notice = node === undefined ? undefined : decodeRevocation(node.data);
  if (notice?.overtaken !== attempt) return undefined;
  const { preference, passed = 0 } = candidate ?? {};
  // The value may be an earlier request's, if this one has none.
  const again = { ...request, data, candidate: { preference, passed: candidate?.passed }, again: true as const };
  return notice.preferred === true ? { ...again, candidate: { preference, passed: passed + 1 }, notice: path } : again;
}

/**
 * The request whose place made way stands again: its lease need not be told any more, and what is told it until it ends
 * does not grow. A notice that stays is one more that its candidate is counted to have made way (`preference.ts`).
 */
export async function forgetNotice(
  { control }: Pick<Coordination, 'control'>,
  { notice }: Pick<JoinRequest, 'notice'>,
  deadline: number,
): Promise<void> {
  if (notice === undefined) return;
  await unless(control.until(deadline).remove(notice), 'NO_NODE').catch((error: unknown) => {
    if (!isTransient(error)) throw error;
  });
}

const NEVER = 'never';

export interface Pending {
  breakAt: number | undefined;
  leaseId: string;
  holdId: string;
}

export function pendingName(breakAt: number | undefined, leaseId: string, holdId: string): string {
  return `${breakAt ?? NEVER}.${leaseId}.${holdId}`;
}

/** @returns undefined for a name that is none of ours */
export function parsePending(name: string): Pending | undefined {
  const [, when, leaseId, holdId] = /^(never|\d+)\.([0-9a-f]+)\.([\w-]+)$/.exec(name) ?? [];
  if (leaseId === undefined || holdId === undefined) return undefined;
  return { breakAt: when === NEVER ? undefined : Number(when), leaseId, holdId };
}

/**
 * What a lease has to be told: asked for, or broken. Where there is nothing, which is nearly always, this is one read
 * of a node that does not exist. What was asked for and released since is left out.
 */
export async function readNotices(zk: BoundClient, layout: Layout, leaseId: string): Promise<Notice[]> {
  const directory = layout.revocationsOf(leaseId);
  const holdIds = await zk.children(directory);
  const notices = await Promise.all(
    holdIds.map(async (holdId): Promise<Notice | undefined> => {
      const node = await zk.find(`${directory}/${holdId}`);
      if (node === undefined) return undefined;
      const record = decodeRevocation(node.data);
      const notice = { ...record, holdId };
      if (record.state === 'broken') return notice;
      const hold = await zk.exists(record.path);
      return hold?.czxid === record.czxid ? notice : undefined;
    }),
  );
  return notices.filter((notice) => notice !== undefined).sort((a, b) => a.czxid - b.czxid);
}
