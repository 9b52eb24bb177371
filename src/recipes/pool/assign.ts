/**
 * What the head of the line does: gives its request members, in one transaction, or waits until there are enough.
 *
 *   turn ─▶ read the definition, the marks and the holds behind a `sync`, and what the lease has under this request
 *             │ it has members: an earlier try was done ─▶ the place is given up ─▶ written
 *             │ enough are free ─▶ transaction ──done──▶ written
 *             │                        └─ something differs from what was read ─▶ read again
 *             │                        └─ the place is another attempt's, or gone ─▶ superseded | lost
 *             └ too few ─▶ not-yet; a hold that ends, another definition, the end of a rest ─▶ turn
 *
 * The transaction checks the definition's version, removes the place at its version, and makes for each member its hold
 * and its mark, behind the lease's fence. So only who still is the head assigns, and nobody else has assigned since it
 * read: what is free can only have become more. That no member has two holders does not depend on that; the node of
 * a hold exists once.
 *
 * What is read is as new as what made the place the head: of a session that was replaced by one at a server that is
 * behind it is read again (C2).
 */
import { PosternError } from '../../errors.js';
import { poolMarksOf } from '../../leases/layout.js';
import type { Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import { isReason, NoReplyError } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { Listing, MultiOperation } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import type { Watch, Watched } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { decodeRecord } from '../line/contender.js';
import type { Turn } from '../line/line.js';
import type { Written } from '../line/place.js';
import { choose, type Usage } from './choose.js';
import { markOf } from './marks.js';
import { ownMembers, takeOver, type HeldMember } from './own.js';
import { decodePool, encodeHold, fitting, type Member, type Pool, type PoolHold, type PoolRef } from './pool.js';
import { restsOf } from './rest.js';
import { usageOf } from './state.js';

export interface AssignRequest {
  readonly ref: PoolRef;
  readonly lease: Lease;
  readonly requestId: string;
  readonly count: number;
  readonly labels: readonly string[];
  /** As hashed (`marks.ts`); empty: it does not ask for the same as before. */
  readonly ownerHash: string;
  /** In the caller's words. */
  readonly owner: string;
  readonly requester: Requester;
}

export interface Assigned {
  /** At least one. */
  readonly members: readonly HeldMember[];
  /** Given to an earlier attempt of this request, which may have been answered. */
  readonly alreadyHeld: boolean;
}

/** The place in line stands second in the transaction. */
const PLACE_INDEX = 1;

export class Assigning {
  assigned: Assigned | undefined;
  /** What was sent last, whether it was done or not. */
  sent: readonly HeldMember[] = [];
  readonly #context: Coordination;
  readonly #request: AssignRequest;
  #watches: Watch[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(context: Coordination, request: AssignRequest) {
    this.#context = context;
    this.#request = request;
  }

  /** @throws PosternError `not-found`; LeaseExpiredError, ClientGoneError, NoReplyError */
  take(turn: Turn): Promise<Written | 'not-yet'> {
    const { lease, requester } = this.#request;
    return this.#context.leases.sessions.useRepeatedly(
      lease,
      turn.deadline,
      (session) => this.#takeOn(session, turn),
      requester,
    );
  }

  /** Waits for nothing any more. */
  stop(): void {
    clearTimeout(this.#timer);
    for (const watch of this.#watches) watch.cancel();
    this.#watches = [];
  }

  async #takeOn(session: LeaseSession, turn: Turn): Promise<Written | 'not-yet'> {
    const { place, line, deadline } = turn;
    for (;;) {
      this.stop();
      const pool = await this.#readPool(turn);
      const [usage, own] = await Promise.all([
        this.#readUsage(pool, turn),
        ownMembers(session.until(deadline), this.#context.layout, this.#request, pool),
      ]);
      if (own.length > 0) {
        const { attempt } = place.record;
        const isMine = own.every(({ hold }) => hold.attempt === attempt);
        const members = isMine ? own : await takeOver(session.until(deadline), own, attempt);
        if (members === undefined) continue;
        this.#keep({ members, alreadyHeld: !isMine });
        await place.leave(deadline);
        line.remove(place);
        return 'written';
      }
      const chosen = await this.#choose(pool, usage, turn);
      if (chosen === undefined) return 'not-yet';
      const done = await this.#assign(session, turn, pool, { members: chosen, usage });
      if (done !== undefined) return done;
      if (performance.now() >= deadline) throw new NoReplyError('the assignment of members', 'deadline', false);
    }
  }

  async #readPool({ deadline, wake }: Turn): Promise<Pool> {
    const { control } = this.#context;
    const { name, namespace, path } = this.#request.ref;
    const [, { value }] = await Promise.all([
      control.sync(path, deadline),
      this.#watched((listener) => control.watches.getData(path, listener, deadline), wake),
    ]);
    if (value !== undefined) return decodePool(name, value);
    throw new PosternError('not-found', `There is no pool "${name}" in namespace "${namespace}" any more.`);
  }

  /** As new as what showed that the place is first, and marks before holds (`state.ts`). */
  async #readUsage({ id }: Pool, { place, line, deadline, wake }: Turn): Promise<Usage> {
    const { control, layout } = this.#context;
    const { namespace } = this.#request.ref;
    const holds = layout.poolHolds(namespace, id);
    for (;;) {
      const [, marks, held] = await Promise.all([
        control.sync(holds, deadline),
        control.until(deadline).list(layout.poolMarks(namespace, id)),
        this.#watched<Listing>((listener) => control.watches.getChildren(holds, listener, deadline), wake),
      ]);
      if ((marks?.zxid ?? held.zxid) < Math.max(line.zxid, place.czxid)) continue;
      return usageOf(marks?.children ?? [], held.value?.children ?? []);
    }
  }

  /** @returns undefined when too few are free; then `wake` is called when that may have changed */
  async #choose(pool: Pool, usage: Usage, { deadline, wake }: Turn): Promise<readonly Member[] | undefined> {
    const { ref, count, labels, ownerHash: owner } = this.#request;
    const suitable = fitting(pool, labels);
    const { quarantineMs } = pool;
    const first = choose(suitable, usage, { count, owner }, () => quarantineMs > 0);
    if (first.members !== undefined || first.lost.length === 0) return first.members;
    const directory = this.#context.layout.poolMarks(ref.namespace, pool.id);
    const zk = this.#context.control.until(deadline);
    const ends = await restsOf(this.#context, zk, { marks: first.lost, directory, quarantineMs });
    const { members } = choose(suitable, usage, { count, owner }, ({ name }) => ends.has(name));
    if (members !== undefined || wake === undefined) return members;
    // Where none rests any more, others have the rest: what they hold is watched.
    if (ends.size === 0) return undefined;
    const ms = Math.min(...ends.values()) - this.#context.zooKeeperClock.now();
    this.#timer = setTimeout(wake, Math.max(1, Math.ceil(ms)));
    return undefined;
  }

  /** @returns undefined when something was no longer as it had been read */
  async #assign(
    session: LeaseSession,
    { place, line, deadline }: Turn,
    pool: Pool,
    { members, usage }: { members: readonly Member[]; usage: Usage },
  ): Promise<Written | undefined> {
    const { ref } = this.#request;
    const held = members.map((member) => this.#held(pool, member, place));
    this.sent = held;
    try {
      await session.multi(
        [
          { type: 'check', path: ref.path, version: pool.version },
          { type: 'delete', path: place.path, version: place.version },
          ...held.flatMap((member) => this.#make(member, usage)),
        ],
        deadline,
      );
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS')) throw error;
      return error.failedIndex === PLACE_INDEX ? this.#whosePlace(session, place, deadline) : undefined;
    }
    line.remove(place);
    this.#context.metrics.poolMembersTotal.inc({ outcome: 'assigned' }, held.length);
    this.#keep({ members: held, alreadyHeld: false });
    return 'written';
  }

  #make({ id, path, hold }: HeldMember, usage: Usage): MultiOperation[] {
    const marks = poolMarksOf(parentOf(path));
    const before = usage.marks.get(id);
    return [
      { type: 'create', path, data: encodeHold(hold), mode: 'ephemeral' },
      ...(before === undefined ? [] : [{ type: 'delete' as const, path: `${marks}/${before.name}` }]),
      { type: 'create', path: `${marks}/${hold.mark}` },
    ];
  }

  #held(pool: Pool, { id, data }: Member, { holdId, czxid, record }: Turn['place']): HeldMember {
    const { ref, lease, requestId, owner, ownerHash } = this.#request;
    const hold: PoolHold = {
      pool: ref.name,
      holdId,
      guid: lease.guid('pool', ref.name, requestId),
      attempt: record.attempt,
      leaseId: lease.leaseId,
      principal: lease.principal,
      label: lease.label,
      owner,
      requestId,
      fencingToken: czxid,
      mark: markOf(id, ownerHash, czxid),
      since: Math.round(this.#context.zooKeeperClock.now()),
    };
    return { id, data, path: `${this.#context.layout.poolHolds(ref.namespace, pool.id)}/${id}`, version: 0, hold };
  }

  /** @returns undefined: it is mine; or it is gone, and what I have under this request will be read */
  async #whosePlace(
    session: LeaseSession,
    place: Turn['place'],
    deadline: number,
  ): Promise<'superseded' | 'lost' | undefined> {
    const { layout } = this.#context;
    const zk = session.until(deadline);
    const [, node] = await Promise.all([zk.sync(place.path), zk.find(place.path)]);
    if (node?.stat.czxid !== place.czxid) {
      const pool = await zk.find(this.#request.ref.path);
      const own = pool && (await ownMembers(zk, layout, this.#request, decodePool(this.#request.ref.name, pool)));
      return own === undefined || own.length === 0 ? 'lost' : undefined;
    }
    if (decodeRecord(node.data)?.attempt !== place.record.attempt) return 'superseded';
    place.version = node.stat.version;
    return undefined;
  }

  #keep(assigned: Assigned): void {
    const { granted } = this.#context;
    this.assigned = assigned;
    for (const { path, hold } of assigned.members) granted.remember(path, hold.leaseId, hold.fencingToken, false);
  }

  /** @param wake undefined: nobody waits, and no watch is left behind */
  async #watched<T>(
    set: (listener: () => void) => Promise<Watched<T>>,
    wake: (() => void) | undefined,
  ): Promise<Watched<T>> {
    let woken = false;
    const watched = await set(() => {
      if (!woken) wake?.();
      woken = true;
    });
    if (wake === undefined) watched.watch?.cancel();
    else if (watched.watch !== undefined) this.#watches.push(watched.watch);
    return watched;
  }
}
