/**
 * The claims that a lease has at a queue: for answering a repeated request (`requestId`), and for showing what the
 * lease holds. ZooKeeper lists a session's own nodes, so other leases' claims are never read.
 */
import { PosternError } from '../../../errors.js';
import { isReason } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import type { Lease } from '../../../leases/lease.js';
import type { Awaited } from '../../../time.js';
import type { MultiReadResult } from '../../../zookeeper/operations.js';
import type { ReadNode } from '../../../zookeeper/read-nodes.js';
import { encodeClaimId } from './id.js';
import type { Delivered, Reserve } from './demand.js';
import { claimPath, decodeClaim, recordPath, type ClaimRecord } from './entry.js';
import { decodeMessage } from '../message.js';
import type { Queue } from '../queue.js';
import { bytesOfMessage } from './room.js';
import { comparePlaces, messageOf, type MessagePlace } from '../paths.js';

const READS_AT_ONCE = 1_000;
const PLACE = /\/p(\d{3})\/s-(\d{10})\/(m-[^/]+)\/c$/;

/** Where the message of a claim's node stands; undefined for the path of another node. */
export function placeOfClaim(path: string): MessagePlace | undefined {
  const match = PLACE.exec(path);
  const message = match === null ? undefined : messageOf(match[3] as string);
  return match === null || message === undefined
    ? undefined
    : { priority: Number(match[1]), segment: Number(match[2]), ...message };
}

/**
 * What this lease has claimed with that requestId and not acknowledged yet, in the order of the queue. Their nodes are
 * written, so that the first try, should it find that its client has left, does not take them back; nor may the caller,
 * whatever becomes of its answer: another try may have been answered before.
 * @param awaited `reserve` is asked before the messages are read
 * @throws LeaseExpiredError, NoReplyError; PosternError `outcome-unknown` when there is no room for all of them
 */
export function findClaims(
  queue: Queue,
  lease: Lease,
  requestId: string,
  { deadline, requester, reserve }: Awaited & { reserve: Reserve },
): Promise<Delivered[]> {
  const find = async (session: LeaseSession): Promise<Delivered[]> => {
    for (;;) {
      const claims = await ownClaims(session, queue, requestId, deadline);
      await reserveAll(session, claims, reserve, deadline);
      const found = await readMessages(session, queue, lease, claims, deadline);
      if (await written(session, found, deadline)) return found.map(({ item }) => item);
    }
  };
  return queue.context.leases.sessions.useRepeatedly(lease, deadline, find, requester);
}

interface Found {
  item: Delivered;
  /** Of the claim's own node. */
  data: Buffer;
  version: number;
}

/** @returns false when one of them was taken back, settled or prolonged meanwhile */
async function written(session: LeaseSession, found: readonly Found[], deadline: number): Promise<boolean> {
  if (found.length === 0) return true;
  try {
    await session.multi(
      found.map(({ item: { path }, data, version }) => ({ type: 'setData', path: claimPath(path), data, version })),
      deadline,
    );
    return true;
  } catch (error) {
    if (isReason(error, 'NO_NODE', 'BAD_VERSION')) return false;
    throw error;
  }
}

interface OwnClaim {
  place: MessagePlace;
  /** Of the message. */
  path: string;
  record: ClaimRecord;
  /** The claim's own node. */
  node: ReadNode;
}

async function ownClaims(
  session: LeaseSession,
  queue: Queue,
  requestId: string,
  deadline: number,
): Promise<OwnClaim[]> {
  const [, paths] = await Promise.all([
    session.sync(queue.paths.data, deadline),
    session.getEphemerals(queue.paths.data, deadline),
  ]);
  const claims = paths
    .flatMap((path) => {
      const place = placeOfClaim(path);
      return place === undefined ? [] : [{ path, place }];
    })
    .sort((a, b) => comparePlaces(a.place, b.place));
  const results: MultiReadResult[] = [];
  // A lease may have so many that one request with all of them is more than a server reads.
  for (let i = 0; i < claims.length; i += READS_AT_ONCE) {
    const batch = claims.slice(i, i + READS_AT_ONCE).map(({ path }) => ({ type: 'getData' as const, path }));
    results.push(...(await session.multiRead(batch, deadline)).results);
  }
  return results.flatMap((node, i) => {
    const record = 'data' in node ? decodeClaim(node.data) : undefined;
    if (!('data' in node) || record?.requestId !== requestId) return [];
    const { path, place } = claims[i] as { path: string; place: MessagePlace };
    return [{ place, path: path.slice(0, -'/c'.length), record, node }];
  });
}

/** For an answer with all of them: it leaves none out, so it is given as a whole or not at all. */
async function reserveAll(
  session: LeaseSession,
  claims: readonly OwnClaim[],
  reserve: Reserve,
  deadline: number,
): Promise<void> {
  if (claims.length === 0) return;
  const stats = await Promise.all(claims.map(({ path }) => session.exists(path, deadline)));
  // Which of them are told as base64 is not known yet.
  const bytes = stats.reduce((sum, stat) => sum + bytesOfMessage(stat?.dataLength ?? 0, stat?.dataLength ?? 0), 0);
  const refused = reserve(bytes);
  if (refused === undefined) return;
  const { message, members } = refused;
  // That nothing was done would not be true: an earlier try has claimed them.
  throw new PosternError('outcome-unknown', `It has no answer: ${message}`, { members, cause: refused });
}

async function readMessages(
  session: LeaseSession,
  queue: Queue,
  lease: Lease,
  claims: readonly OwnClaim[],
  deadline: number,
): Promise<Found[]> {
  const found: Found[] = [];
  for (const { place, path, record, node: own } of claims) {
    // One by one: bodies may be large.
    const read = await session.multiRead(
      [
        { type: 'getData', path },
        { type: 'getData', path: recordPath(path) },
      ],
      deadline,
    );
    const [node, deliveries] = read.results;
    if (node === undefined || deliveries === undefined || !('data' in node) || !('data' in deliveries)) continue;
    const message = decodeMessage(node.data);
    if (message === undefined) continue;
    const { version } = deliveries.stat;
    const item = {
      queue: queue.name,
      message,
      priority: place.priority,
      enqueuedAt: message.header.e ?? node.stat.ctime,
      expiresAt: place.expiresAt,
      deliveries: (message.header.n ?? 0) + version + 1,
      claimId: encodeClaimId(lease, { queueId: queue.id, ...place, version, until: record.first ?? record.until ?? 0 }),
      claimedUntil: record.until,
      path,
      version,
    };
    found.push({ item, data: own.data, version: own.stat.version });
  }
  return found;
}
