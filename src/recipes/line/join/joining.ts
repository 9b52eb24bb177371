/**
 * One attempt of one request to join a line, over one session: what it knows, and the small steps that `join.ts`,
 * `create.ts` and `adopt.ts` share. The {@link Trace} records what a request has done over all of its attempts.
 */
import { PosternError } from '../../../errors.js';
import type { LineKind } from '../../../leases/layout.js';
import { unless } from '../../../zookeeper/errors.js';
import type { LeaseSession } from '../../../zookeeper/lease-session.js';
import type { Stat } from '../../../zookeeper/operations.js';
import { LAST_SEQUENCE } from '../../../zookeeper/paths.js';
import type { Coordination } from '../../coordination.js';
import { deleteContender } from '../candidate-tail.js';
import {
  byNumber,
  guidOf,
  isNamed,
  numberOf,
  prefixOf,
  sortLine,
  withState,
  type Contender,
  type ContenderRecord,
  type NodePrefix,
} from '../contender.js';
import type { SeenDirectory } from '../directory.js';
import type { Line } from '../line.js';
import { PermitTerms } from '../permits/permit-terms.js';
import { Place } from '../place.js';
import { renewDirectory } from '../worn-directory.js';
import type { JoinRequest, Placed } from './request.js';

/** An assumption has changed: begin again with a listing. */
export const LOOK_AGAIN = Symbol('look again');
export type LookAgain = typeof LOOK_AGAIN;

/** The nodes that a request leaves in ZooKeeper, over all its connections. */
export interface Trace {
  readonly attempt: string;
  /** A node of this attempt stands in line, or did, or may. */
  wrote: boolean;
  /**
   * The czxid of a hold that an earlier attempt was granted, and that this one found. It stays, whatever becomes of
   * this request: an earlier answer may have told the client of it.
   */
  heldBefore?: number;
}

export class Joining {
  readonly context: Coordination;
  readonly line: Line;
  readonly request: JoinRequest;
  readonly session: LeaseSession;
  readonly trace: Trace;
  /** The record of a new node of this request. */
  readonly record: ContenderRecord;
  /** Semaphores only: how the number of permits is agreed on. */
  readonly terms: PermitTerms;

  constructor(context: Coordination, line: Line, request: JoinRequest, session: LeaseSession, trace: Trace) {
    this.context = context;
    this.line = line;
    this.request = request;
    this.session = session;
    this.trace = trace;
    const { lease, lockDelayMs } = request;
    this.record = {
      state: isHeldIfFirst(line, request) ? 'granted' : 'waiting',
      attempt: trace.attempt,
      leaseId: lease.leaseId,
      principal: lease.principal,
      label: lease.label,
      requestId: request.requestId,
      data: request.data,
      delayMs: lockDelayMs > 0 ? lockDelayMs : undefined,
      candidate: line.kind === 'election' ? { acknowledged: false, ...request.candidate } : undefined,
      downgradable: request.downgradable === true ? true : undefined,
      leaseToken: request.leaseToken,
      waitUntil: undefined,
      grantedAt: undefined,
      reservation: request.reservation,
    };
    this.terms = new PermitTerms(context.control, line, request);
  }

  /** Lists the line on the lease's own session, so that the answer shows what this session has written. */
  async list(): Promise<Contender[]> {
    this.context.metrics.lineListingsTotal.inc({ kind: this.line.kind });
    const listing = await unless(this.session.getChildren(this.line.path, this.request.hardDeadline), 'NO_NODE');
    if (listing === undefined) return [];
    const line = sortLine(listing.children);
    this.line.merge(line, listing.zxid, listing.stat);
    return line;
  }

  /** The request's own nodes in a listing, in the order of their numbers. @param created one that is known to be own */
  async own(listed: readonly Contender[], created?: string): Promise<Contender[]> {
    const { guids, lease, hardDeadline } = this.request;
    const own: Contender[] = [];
    for (const contender of listed) {
      // A line may be long: the names of others are not taken apart.
      if (!isNamed(contender.name, guids.own) && (guids.shared === undefined || !isNamed(contender.name, guids.shared)))
        continue;
      const guid = guidOf(contender.name);
      if (guid === undefined) continue;
      if (contender.name === created || guid === guids.own) {
        own.push(contender);
      } else if (guid === guids.shared) {
        const node = await unless(this.session.getData(this.pathOf(contender), hardDeadline), 'NO_NODE');
        if (node !== undefined && node.stat.ephemeralOwner === lease.sessionId) own.push(contender);
      }
    }
    return this.line.rule.isRoom === true ? own.sort(byNumber) : own;
  }

  /** Which kind of node a place of this request is. */
  get prefix(): NodePrefix {
    const { mode, permits, priority } = this.request;
    return priority === undefined ? prefixOf(this.line.kind, mode, permits?.count) : `prio${priority}-`;
  }

  pathOf({ name }: Contender): string {
    return `${this.line.path}/${name}`;
  }

  admitted(listed: readonly Contender[], mine: Contender): boolean {
    const index = listed.findIndex(({ name }) => name === mine.name);
    return index < this.line.rule.admitted(listed);
  }

  /** The record of somebody who waits for as long as this request does. */
  waiting(record: ContenderRecord): ContenderRecord {
    const { stays, receivedAt, waitMs } = this.request;
    if (stays === true) return withState(record, 'waiting', {});
    const leftMs = Math.max(0, receivedAt + waitMs - performance.now());
    const waitUntil = Math.round(this.context.zooKeeperClock.now() + leftMs);
    return withState(record, 'waiting', { waitUntil });
  }

  placeAt(contender: Contender, stat: Stat, record: ContenderRecord): Place {
    return new Place(this.context, this.line.path, contender, stat, record);
  }

  placed(place: Place, first: boolean, seen: SeenDirectory | undefined, alreadyHeld = false): Placed {
    const expiresAt = this.context.leases.expiresAt(this.session);
    return { how: 'placed', place, first, alreadyHeld, expiresAt, seen };
  }

  /** The line's kind, for what is recorded of a hold in it. */
  get kind(): LineKind {
    return this.line.kind as LineKind;
  }

  /**
   * The directory runs out of numbers: the place at `path` is given up, and the directory made anew, if nobody else
   * stands in it.
   * @throws PosternError 503 when it cannot be now, unless an earlier try of this request has a place
   */
  async giveUpWorn(path: string): Promise<LookAgain> {
    const { name, hardDeadline } = this.request;
    const zk = this.session.until(hardDeadline);
    const renewed = await renewDirectory(zk, this.line.path, path, this.record.downgradable);
    if (!renewed) await unless(deleteContender(zk, path, undefined, this.record.downgradable), 'NO_NODE');
    this.trace.wrote = false;
    if (renewed) return LOOK_AGAIN;
    const [, listed] = await Promise.all([zk.sync(path), this.list()]);
    const own = await this.own(listed);
    // Several who found it worn at once stood in each other's way: it is empty now.
    if (listed.length === 0 || own.some((contender) => numberOf(contender) < LAST_SEQUENCE)) return LOOK_AGAIN;
    throw new PosternError(
      'zookeeper-unavailable',
      `So many have lined up for "${name}" that ZooKeeper has no more numbers for its line. It takes newcomers again when all who stand in it have left; repeat the request.`,
    );
  }
}

/**
 * Whether a place is the hold once it is first: nothing else has to be checked, or done. Not of a reservation: a place
 * that its request leaves would be a hold for ever, because no lease ends it.
 */
function isHeldIfFirst({ kind }: Line, { permits, lockDelayMs, priority, reservation }: JoinRequest): boolean {
  if (permits !== undefined || priority !== undefined || reservation !== undefined) return false;
  return lockDelayMs === 0 && kind !== 'pool';
}
