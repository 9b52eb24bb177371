/**
 * Double barrier: a fixed number of members enter together, and leave together.
 *
 * Guarantee: nobody has entered before `size` members were present at one moment, as seen by ZooKeeper. They form a
 * *round*: the first `size` to arrive. Everybody else waits for the next one. No member of a round is told that all
 * have left while another member of it is present. A member that dies while entering does not count; one that dies
 * while leaving has left.
 * Not guaranteed: that all members of a round are still alive when one of them hears of it.
 *
 * Layout:  <root>/ns/<namespace>/double-barriers/<name>            data: the size of those who gather (`round.ts`)
 *          <root>/ns/<namespace>/double-barriers/<name>/<member>   ephemeral, of the lease's session; data:
 *                                                                  `membership/member.ts`
 *          <root>/ns/<namespace>/double-barriers/<name>/ready      persistent; data: the round (`round.ts`)
 * Source:  ZooKeeper recipes, "Double Barriers"; Curator's DistributedDoubleBarrier (names). Where it differs: a
 *          `ready` that is left over lets nobody in; more members than `size` are no error; after every waking it is
 *          looked whether what was waited for is so (Curator's GH-1290: there any event lets a member in). ADR 14 says
 *          why.
 *
 * Reading order: this, with `passage.ts`; `round.ts` and `rounds.ts`; `wait.ts` with `observer.ts`; `view.ts`;
 * `tidy.ts`.
 *
 * One walk through, with a size of 2, members A and B, and C who comes too:
 *
 * 1. *enter*: A creates its node on its own session, and in the same round trip asks how many there are. If too few, it
 *    waits for `ready`, on one watch per replica (`observer.ts`). The node stays when the wait is over (202), the
 *    client is gone, or the replica drains or dies; the repeated request finds it. It goes by *leave* or with its
 *    lease.
 * 2. B comes, and there are two. It begins the round (`rounds.ts`): `ready` is made in a transaction that checks A and
 *    B. A has died in that moment: the transaction fails, B waits. Creates are ordered, so the request that completes
 *    the number sees that it is complete.
 * 3. B's replica dies between its create and that transaction: nobody begins the round. B's client repeats the request,
 *    which begins it; so does any other waiting request at its next look, every third of its TTL.
 * 4. `ready` appears: one notification per replica, all of the round are told.
 * 5. C came before `ready`, or after it, and is not in the round: it waits until the round is over, and then gathers
 *    for the next one.
 * 6. *leave*: A deletes its node, and looks whether any member of the round is present. B is: it waits. It does not
 *    matter who enters meanwhile, even A itself: a younger node is not in the round.
 * 7. B leaves, finds nobody, and ends the round: `ready` is deleted. One notification per replica: A is told, C looks
 *    whether there are enough.
 * 8. B dies instead: A's replica watches B by name when the leaving has become slow, and ends the round.
 * 9. B's replica dies between the deletion of its node and the end of the round: as 8. Nobody waits: whoever enters
 *    next ends it.
 * 10. All die: `ready` is left over. The next to enter finds no member of its round, and ends it. If nobody ever comes,
 *    housekeeping does.
 * 11. A's leave is repeated after its node was deleted: the round still names A's lease, so it waits for the others; it
 *     is over: all have left. After the deletion nothing can be refused any more as not done: what ZooKeeper does not
 *     answer then is of unknown outcome.
 * 12. A leaves before it has entered: its node goes, and it has nobody to wait for. `ready` comes between the look and
 *     the deletion: A was in the round, finds so by looking again behind the deletion, and waits.
 * 13. A enters in one request with its lease, and its answer does not arrive (protocol C14). Lease and member stay for
 *     the repetition, until the TTL has passed, whether it has entered or not. If the lease ended meanwhile, an A that
 *     came back with another one would find its own member in its way, or begin a round with it.
 */
import { NotHolderError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import { endReason } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { byDeadline } from '../../zookeeper/by-deadline.js';
import { isTransient, orUnknown, unless } from '../../zookeeper/errors.js';
import type { Stat } from '../../zookeeper/operations.js';
import { newAttempt } from '../line/contender.js';
import type { Coordination } from '../coordination.js';
import type { RoundObservers } from './observer.js';
import { decodeMember, encodeMember, memberIdOf } from '../membership/member.js';
import { OtherOwner, type Memberships } from '../membership/membership.js';
import { withNewLease, type NewLease, type WithLease } from '../with-lease.js';
import { nameTaken, otherSize, type FirstPassage, type Passage, type Passed } from './passage.js';
import { decodeSize, encodeSize, isInRound, READY, type Round } from './round.js';
import type { Rounds } from './rounds.js';
import { KIND, untilNoReply, waitFor, type WaitedFor } from './wait.js';

const NAME_KIND = 'double-barrier';
const LOOK_MS = 5_000;

/** Which barrier, and as whom. */
interface Where {
  directory: string;
  path: string;
  member: string;
}

export class DoubleBarriers {
  readonly #context: Coordination;
  readonly #memberships: Memberships;
  readonly #rounds: Rounds;
  readonly #observers: RoundObservers;

  constructor(context: Coordination, memberships: Memberships, rounds: Rounds, observers: RoundObservers) {
    this.#context = context;
    this.#memberships = memberships;
    this.#rounds = rounds;
    this.#observers = observers;
  }

  /**
   * @throws PosternError `conflict` (another lease's name, another size, taken away), LeaseExpiredError, NoReplyError
   */
  async enter(passage: Passage, size: number): Promise<Passed> {
    const { lease, deadline } = passage;
    const at = this.#where(passage);
    const { directory, path, member } = at;
    const placed = await this.#place(passage, size).catch((error: unknown) => {
      throw error instanceof OtherOwner ? nameTaken(passage.name, member, error) : error;
    });
    const { stat } = placed;
    this.#context.granted.remember(path, lease.leaseId, stat.czxid, false);
    const isIn = (round: Round | undefined): boolean => round !== undefined && isInRound(round, member, stat.czxid);
    const look = async (): Promise<boolean> => isIn(await this.#rounds.look(directory, size));
    // Its place is sure: what cannot be known now is known later.
    const first =
      placed.mayBeEnough && (await untilNoReply(() => byDeadline(look(), deadline, 'the look at the round')));
    const done =
      first ||
      (await this.#wait(passage, directory, {
        look,
        wanted: ({ round }) => isIn(round),
        mayBe: async () => {
          const [own, parent] = await this.#peek(directory, path);
          if (own?.czxid !== stat.czxid) throw await this.#takenAway(passage, member);
          return (parent?.numChildren ?? 0) >= size;
        },
      }));
    this.#count(passage, done, first);
    if (done) this.#context.granted.announce(lease.leaseId);
    return this.#passed(passage, at, done, placed);
  }

  /**
   * As `enter`, with a lease that is made for it, or was by an earlier attempt of this request. The member stays,
   * whatever becomes of the answer (13).
   * @throws as `enter` and `withNewLease`
   */
  enterWithLease(newLease: NewLease, passage: FirstPassage, size: number): Promise<WithLease<Passed>> {
    return withNewLease<Passed>(this.#context, {
      newLease,
      subject: ['double-barrier', passage.name],
      requestId: passage.requestId,
      deadline: passage.deadline,
      requester: passage.requester,
      work: (lease) => this.enter({ ...passage, lease }, size),
      isInVain: () => false,
      endsWhenGone: false,
    });
  }

  /** @throws NotHolderError when the member is another lease's, LeaseExpiredError, NoReplyError */
  async leave(passage: Passage): Promise<Passed> {
    const { lease, name, deadline } = passage;
    const at = this.#where(passage);
    const { directory, path, member } = at;
    const { stat, round, expiresAt } = await this.#withdraw(passage).catch((error: unknown) => {
      throw error instanceof OtherOwner
        ? new NotHolderError(`member "${member}" of double barrier`, name, 'member')
        : error;
    });
    this.#context.granted.forget(path, lease.leaseId);
    const look = (): Promise<boolean> =>
      round === undefined ? Promise.resolve(true) : this.#rounds.isOver(directory, round);
    const first = await untilNoReply(() => byDeadline(look(), deadline, 'the look at the round'));
    const done =
      first ||
      (await this.#wait(passage, directory, {
        look,
        // That it is gone counts only when the server had seen it (C2).
        wanted: (now) => (now.round?.czxid ?? now.zxid) >= (round?.czxid ?? 0) && now.round?.czxid !== round?.czxid,
        mayBe: () => Promise.resolve(true),
      }));
    this.#count(passage, done, first);
    return this.#passed(passage, at, done, { stat, expiresAt });
  }

  /** The lease's own name, in the form that Curator's members have. */
  #where({ lease, name, member, requestId }: Passage): Where {
    const own = member ?? lease.guid(NAME_KIND, name, requestId);
    const directory = this.#context.layout.doubleBarrier(lease.namespace, name);
    return { directory, path: `${directory}/${own}`, member: own };
  }

  /** Steps 1: the node, found or made. */
  #place(passage: Passage, size: number): Promise<{ stat: Stat; expiresAt: number; mayBeEnough: boolean }> {
    const { lease, deadline, name, requester } = passage;
    const { directory, path } = this.#where(passage);
    const { leaseId, principal, label } = lease;
    const data = encodeMember({ leaseId, principal, label, attempt: newAttempt(), size });
    return this.#memberships.inTurn({ lease, path, deadline, requester }, async (zk, session) => {
      const expiresAt = (): number => this.#context.leases.expiresAt(session);
      await session.raiseFence(zk.deadline); // an enter that was given up may be on its way still (protocol C46)
      for (;;) {
        const [own, parent] = await Promise.all([this.#memberships.find(zk, lease, path), zk.find(directory)]);
        if (own !== undefined) {
          const before = decodeMember(own.data)?.size;
          if (before !== size) throw otherSize(name, size, before);
          // Written as it is: a leave that was given up is refused then (protocol C35).
          const stat = await unless(zk.set(path, own.data, own.stat.version), 'NO_NODE', 'BAD_VERSION');
          if (stat === undefined) continue;
          return { stat, expiresAt: expiresAt(), mayBeEnough: true };
        }
        const agreed = parent === undefined ? undefined : decodeSize(parent.data);
        if (parent !== undefined && agreed !== size) {
          await this.#agree(zk, name, { directory, stat: parent.stat, agreed }, size);
          continue;
        }
        if (parent !== undefined) await this.#memberships.admit(zk, path);
        const [made, now] = await Promise.all([
          this.#memberships.create(zk, { path, data, directory: encodeSize(size) }),
          // Sent behind the create on the same connection, so it counts my node, unless the directory had to be created
          // first or the create had to wait.
          parent === undefined ? undefined : orUnknown(zk.exists(directory)),
        ]);
        if (made === undefined) continue;
        return {
          stat: made,
          expiresAt: expiresAt(),
          mayBeEnough: now === undefined || now.pzxid < made.czxid || now.numChildren >= size,
        };
      }
    });
  }

  /**
   * The first to come to an empty barrier sets how many enter together. (With two at once: members of different sizes
   * are never in one round.)
   */
  async #agree(
    zk: BoundClient,
    name: string,
    { directory, stat, agreed }: { directory: string; stat: Stat; agreed: number | undefined },
    size: number,
  ): Promise<void> {
    const ready = await zk.exists(`${directory}/${READY}`);
    const members = stat.numChildren - (ready === undefined ? 0 : 1);
    if (members > 0 && agreed !== undefined) throw otherSize(name, size, agreed);
    await unless(zk.set(directory, encodeSize(size), stat.version), 'BAD_VERSION', 'NO_NODE');
  }

  /** Step 6: the node is gone then. @returns the round to wait for, if any */
  #withdraw(passage: Passage): Promise<{ stat: Stat | undefined; round: Round | undefined; expiresAt: number }> {
    const { lease, deadline, requester } = passage;
    const { directory, path, member } = this.#where(passage);
    const ready = `${directory}/${READY}`;
    let deleted: Stat | undefined;
    return this.#memberships.inTurn({ lease, path, deadline, requester }, async (zk, session) => {
      const expiresAt = (): number => this.#context.leases.expiresAt(session);
      for (;;) {
        const [found, before] = await Promise.all([
          this.#memberships.find(zk, lease, path).catch(async (error: unknown) => {
            // Mine has gone, before this began or by it, and somebody else has entered under its name since.
            if (!(error instanceof OtherOwner)) throw error;
            if (deleted === undefined && !(await this.#isNamed(zk, directory, member, lease))) throw error;
            return undefined;
          }),
          zk.exists(ready),
        ]);
        let after = before;
        if (found !== undefined) {
          deleted = found.stat;
          const [gone, now] = await Promise.all([
            this.#memberships.delete(zk, path, found.stat),
            orUnknown(zk.exists(ready)),
          ]);
          if (!gone) continue;
          // A round that began in that moment may have me in it; one that ended then ended without me.
          after = now ?? before;
        }
        const round =
          after === undefined
            ? undefined
            : await orUnknown(this.#rounds.read(directory, after.czxid, zk.deadline), () => deleted !== undefined);
        if (round === undefined) return { stat: deleted, round, expiresAt: expiresAt() };
        const wasIn =
          deleted === undefined
            ? round.members?.get(member) === lease.leaseId
            : isInRound(round, member, deleted.czxid);
        return { stat: deleted, round: wasIn ? round : undefined, expiresAt: expiresAt() };
      }
    });
  }

  async #isNamed(zk: BoundClient, directory: string, member: string, { leaseId }: Lease): Promise<boolean> {
    const ready = await zk.exists(`${directory}/${READY}`);
    const round = ready === undefined ? undefined : await this.#rounds.read(directory, ready.czxid, zk.deadline);
    return round?.members?.get(member) === leaseId;
  }

  #wait(passage: Passage, directory: string, sought: WaitedFor): Promise<boolean> {
    return waitFor(this.#context, this.#observers, passage, directory, sought);
  }

  #peek(directory: string, path: string): Promise<[Stat | undefined, Stat | undefined]> {
    const zk = this.#context.control.until(performance.now() + LOOK_MS);
    return zk.fresh(() => Promise.all([zk.exists(path), zk.exists(directory)]));
  }

  async #takenAway({ lease, name }: Passage, member: string): Promise<PosternError> {
    await this.#context.leases.touch(lease, performance.now() + LOOK_MS); // throws when it is the lease that has ended
    return new PosternError(
      'conflict',
      `Member "${member}" of double barrier "${name}" left, or was taken away, while it waited; repeat the request to enter again.`,
    );
  }

  #count({ receivedAt, signal, waitMs }: Passage, done: boolean, first: boolean): void {
    const { metrics } = this.#context;
    const left = endReason(signal) === 'client-gone' && waitMs > 0;
    const outcome = done ? (first ? 'immediate' : 'waited') : left ? 'left' : 'refused';
    metrics.acquireTotal.inc({ kind: KIND, outcome });
    if (done) metrics.acquireWaitSeconds.observe({ kind: KIND }, (performance.now() - receivedAt) / 1_000);
  }

  async #passed(
    { receivedAt, deadline }: Passage,
    { directory, member }: Where,
    done: boolean,
    { stat, expiresAt }: { stat: Stat | undefined; expiresAt: number },
  ): Promise<Passed> {
    return {
      done,
      member,
      memberId: stat === undefined ? undefined : memberIdOf(stat),
      fencingToken: stat?.czxid,
      memberCount: done ? 0 : await this.#memberCount(directory, deadline),
      waitedMs: Math.max(0, Math.round(performance.now() - receivedAt)),
      expiresAt,
    };
  }

  async #memberCount(directory: string, deadline: number): Promise<number> {
    const zk = this.#context.control.until(Math.max(deadline, performance.now() + 1_000));
    const [parent, ready] = await Promise.all([zk.exists(directory), zk.exists(`${directory}/${READY}`)]).catch(
      (error: unknown) => {
        if (isTransient(error)) return [undefined, undefined] as const; // the answer stands without the number
        throw error;
      },
    );
    return (parent?.numChildren ?? 0) - (ready === undefined ? 0 : 1);
  }
}
