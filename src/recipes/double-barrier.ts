/**
 * Double barrier: so many members begin together, and end together.
 *
 * Guarantee: nobody has entered before `size` members were there at one moment, as seen by ZooKeeper. They are a *round*: the first so many to come.
 *   Everybody else waits for the next one. Nobody of a round is told that all have left while another one of it is there. A member
 *   that dies while entering does not count, one that dies while leaving has left.
 * Not guaranteed: that all of a round are still alive when one of them hears of it.
 *
 * Layout:  <root>/ns/<namespace>/double-barriers/<name>            data: the size of those who gather (`round.ts`)
 *          <root>/ns/<namespace>/double-barriers/<name>/<member>   ephemeral, of the lease's session; data: `group-member.ts`
 *          <root>/ns/<namespace>/double-barriers/<name>/ready      persistent; data: the round (`round.ts`)
 * Source:  ZooKeeper recipes, "Double Barriers"; Curator's DistributedDoubleBarrier (names). Where it differs: a `ready` that is left over lets
 *          nobody in; more members than `size` are no error; after every waking it is looked whether what was waited for is so (Curator's
 *          GH-1290: there any event lets a member in). ADR 14 says why.
 *
 * One walk through, with a size of 2, members A and B, and C who comes too:
 *
 * 1. *enter*: A creates its node on its own session, and in the same round trip asks how many there are. Too few: it waits for `ready`,
 *    at one watch that all of its replica share (`double-barrier-observer.ts`). The node stays when the wait is over (202), the client is gone, or the replica
 *    drains or dies; the repeated request finds it. It goes by *leave* or with its lease.
 * 2. B comes, and there are two. It begins the round (`rounds.ts`): `ready` is made in a transaction that checks A and B. A has died in that moment: the
 *    transaction fails, B waits. Creates have an order, so whoever makes the number complete sees that it is.
 * 3. B's replica dies between its create and that transaction: nobody begins the round. B's client repeats, and does; so does
 *    everybody else's request at its next look, every third of its TTL.
 * 4. `ready` appears: one notification per replica, all of the round are told.
 * 5. C came before `ready`, or after it, and is not in the round: it waits until the round is over, and then gathers for the next one.
 * 6. *leave*: A deletes its node, and looks whether anybody of the round is there. B is: it waits. It does not matter who enters meanwhile, A
 *    itself included: a younger node is not in the round.
 * 7. B leaves, finds nobody, and ends the round: `ready` is deleted. One notification per replica: A is told, C looks whether there are enough.
 * 8. B dies instead: A's replica watches B by name when the leaving has become slow, and ends the round.
 * 9. B's replica dies between the deletion of its node and the end of the round: as 8. Nobody waits: whoever enters next ends it.
 * 10. All die: `ready` is left over. Whoever enters next finds nobody of its round, and ends it. Nobody ever comes: housekeeping.
 * 11. A's leave is repeated after its node was deleted: the round still names A's lease, so it waits for the others; it is over: all have left.
 *     After the deletion nothing can be refused any more as not done: what ZooKeeper does not answer then is of unknown outcome.
 * 12. A leaves before it has entered: its node goes, and it has nobody to wait for. `ready` comes between the look and the deletion: A was in the
 *     round, finds so by looking again behind the deletion, and waits.
 */
import { NotHolderError, PosternError } from '../errors.js';
import type { Lease } from '../leases/lease.js';
import type { Kind } from '../metrics/metrics.js';
import { endReason } from '../time.js';
import { byDeadline } from '../zookeeper/by-deadline.js';
import { isTransient, orUnknown, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { Stat } from '../zookeeper/operations.js';
import { newAttempt } from './contender.js';
import type { Coordination } from './coordination.js';
import type { RoundObservers, RoundState } from './double-barrier-observer.js';
import { decodeMember, describeMember, encodeMember, memberIdOf } from './group-member.js';
import { keptAlive } from './kept-alive.js';
import { OtherOwner, type Memberships } from './membership.js';
import { decodeSize, encodeSize, isInRound, READY, type Round } from './round.js';
import type { Rounds } from './rounds.js';

export interface Passage {
  lease: Lease;
  name: string;
  /** Without it the lease's own. */
  member: string | undefined;
  requestId: string;
  waitMs: number;
  /** Arrival of the request, monotonic: what the wait counts from. */
  receivedAt: number;
  /** By when the request must have been done, apart from its wait. */
  deadline: number;
  signal: AbortSignal;
}

export interface Passed {
  /** Whether all are in, or out. */
  done: boolean;
  member: string;
  /** Of the node; undefined when there was none to leave with. */
  memberId: string | undefined;
  fencingToken: number | undefined;
  /** How many are in the barrier, when it was not done. */
  memberCount: number;
  waitedMs: number;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

const KIND: Kind = 'barrier';
const NAME_KIND = 'double-barrier';
/** Looks of a waiting request, per TTL: as often as its lease is kept alive. */
const LOOKS_PER_TTL = 3;
const LOOK_MS = 5_000;

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

  /** @throws PosternError `conflict` (another lease's name, another size, taken away), LeaseExpiredError, NoReplyError */
  async enter(passage: Passage, size: number): Promise<Passed> {
    const { lease, deadline } = passage;
    const { directory, path, member } = this.#where(passage);
    const placed = await this.#place(passage, size).catch((error: unknown) => {
      throw error instanceof OtherOwner ? nameTaken(passage.name, member, error) : error;
    });
    const { stat, expiresAt } = placed;
    this.#context.granted.remember(path, lease.leaseId, stat.czxid, false);
    const isIn = (round: Round | undefined): boolean => round !== undefined && isInRound(round, member, stat.czxid);
    const look = async (): Promise<boolean> => isIn(await this.#rounds.look(directory, size));
    // Its place is sure: what cannot be known now is known later.
    const first =
      placed.mayBeEnough && (await untilNoReply(() => byDeadline(look(), deadline, 'the look at the round')));
    const done =
      first ||
      (await this.#wait(
        passage,
        look,
        ({ round }) => isIn(round),
        async () => {
          const [, own, parent] = await this.#peek(directory, path);
          if (own?.czxid !== stat.czxid) throw await this.#takenAway(passage, member);
          return (parent?.numChildren ?? 0) >= size;
        },
      ));
    this.#count(passage, done, first);
    if (done) this.#context.granted.announce(lease.leaseId);
    return this.#passed(passage, done, member, stat, expiresAt, directory, deadline);
  }

  /** @throws NotHolderError when the member is another lease's, LeaseExpiredError, NoReplyError */
  async leave(passage: Passage): Promise<Passed> {
    const { lease, name, deadline } = passage;
    const { directory, path, member } = this.#where(passage);
    const { own, round, expiresAt } = await this.#withdraw(passage).catch((error: unknown) => {
      throw error instanceof OtherOwner ? new NotHolderError(`member "${member}" of double barrier`, name) : error;
    });
    this.#context.granted.forget(path, lease.leaseId);
    const look = (): Promise<boolean> =>
      round === undefined ? Promise.resolve(true) : this.#rounds.isOver(directory, round);
    const first = await untilNoReply(() => byDeadline(look(), deadline, 'the look at the round'));
    const done =
      first ||
      (await this.#wait(
        passage,
        look,
        // That it is gone counts only when the server had seen it (C2).
        (now) => (now.round?.czxid ?? now.zxid) >= (round?.czxid ?? 0) && now.round?.czxid !== round?.czxid,
        () => Promise.resolve(true),
      ));
    this.#count(passage, done, first);
    return this.#passed(passage, done, member, own, expiresAt, directory, deadline);
  }

  /** The lease's own name, in the form that Curator's members have. */
  #where({ lease, name, member, requestId }: Passage): { directory: string; path: string; member: string } {
    const own = member ?? lease.guid(NAME_KIND, name, requestId);
    const directory = this.#context.layout.doubleBarrier(lease.namespace, name);
    return { directory, path: `${directory}/${own}`, member: own };
  }

  /** Steps 1: the node, found or made. */
  #place(passage: Passage, size: number): Promise<{ stat: Stat; expiresAt: number; mayBeEnough: boolean }> {
    const { lease, deadline, name } = passage;
    const { directory, path } = this.#where(passage);
    const { leaseId, principal, label } = lease;
    const data = encodeMember({ leaseId, principal, label, attempt: newAttempt(), size });
    return this.#memberships.inTurn(lease, path, deadline, async (session) => {
      const expiresAt = this.#context.leases.expiresAt(lease);
      for (;;) {
        const [own, parent] = await Promise.all([
          this.#memberships.find(session, lease, path, deadline),
          unless(session.getData(directory, deadline), 'NO_NODE'),
        ]);
        if (own !== undefined) {
          const before = decodeMember(own.data)?.size;
          if (before !== size) throw otherSize(name, size, before);
          return { stat: own.stat, expiresAt, mayBeEnough: true };
        }
        const agreed = parent === undefined ? undefined : decodeSize(parent.data);
        if (parent !== undefined && agreed !== size) {
          await this.#agree(session, passage, directory, parent.stat, size, agreed);
          continue;
        }
        const [made, now] = await Promise.all([
          this.#memberships.create(session, { path, data, directory: encodeSize(size), deadline }),
          // Asked behind the create on the same connection, so it counts my node, unless the directory had to be made first.
          parent === undefined ? undefined : orUnknown(session.exists(directory, deadline)),
        ]);
        if (made === undefined) continue;
        return { stat: made, expiresAt, mayBeEnough: now === undefined || now.numChildren >= size };
      }
    });
  }

  /** Who comes to an empty barrier says how many enter together. (Two at once: who says another size than others is in no round with them.) */
  async #agree(
    session: LeaseSession,
    { name, deadline }: Passage,
    directory: string,
    stat: Stat,
    size: number,
    agreed: number | undefined,
  ): Promise<void> {
    const ready = await session.exists(`${directory}/${READY}`, deadline);
    const members = stat.numChildren - (ready === undefined ? 0 : 1);
    if (members > 0 && agreed !== undefined) throw otherSize(name, size, agreed);
    await unless(session.setData(directory, encodeSize(size), stat.version, deadline), 'BAD_VERSION', 'NO_NODE');
  }

  /** Step 6: the node is gone then. @returns the round to wait for, if any */
  #withdraw(passage: Passage): Promise<{ own: Stat | undefined; round: Round | undefined; expiresAt: number }> {
    const { lease, deadline } = passage;
    const { directory, path, member } = this.#where(passage);
    const ready = `${directory}/${READY}`;
    let deleted: Stat | undefined;
    return this.#memberships.inTurn(lease, path, deadline, async (session) => {
      const expiresAt = this.#context.leases.expiresAt(lease);
      for (;;) {
        const [found, before] = await Promise.all([
          this.#memberships.find(session, lease, path, deadline).catch(async (error: unknown) => {
            // Mine has gone, before this began or by it, and somebody else has entered under its name since.
            if (!(error instanceof OtherOwner)) throw error;
            if (deleted === undefined && !(await this.#isNamed(session, directory, member, lease, deadline)))
              throw error;
            return undefined;
          }),
          session.exists(ready, deadline),
        ]);
        let after = before;
        if (found !== undefined) {
          deleted = found.stat;
          const [gone, now] = await Promise.all([
            this.#memberships.delete(session, path, found.stat, deadline),
            orUnknown(session.exists(ready, deadline)),
          ]);
          if (!gone) continue;
          // A round that began in that moment may have me in it; one that ended then ended without me.
          after = now ?? before;
        }
        const round =
          after === undefined
            ? undefined
            : await orUnknown(this.#rounds.read(directory, after.czxid, deadline), () => deleted !== undefined);
        if (round === undefined) return { own: deleted, round, expiresAt };
        const wasIn =
          deleted === undefined
            ? round.members?.get(member) === lease.leaseId
            : isInRound(round, member, deleted.czxid);
        return { own: deleted, round: wasIn ? round : undefined, expiresAt };
      }
    });
  }

  async #isNamed(
    session: LeaseSession,
    directory: string,
    member: string,
    { leaseId }: Lease,
    deadline: number,
  ): Promise<boolean> {
    const ready = await session.exists(`${directory}/${READY}`, deadline);
    const round = ready === undefined ? undefined : await this.#rounds.read(directory, ready.czxid, deadline);
    return round?.members?.get(member) === leaseId;
  }

  /**
   * Waits until `wanted`, or until a look finds it so, and keeps the lease alive meanwhile (C4).
   * @param mayBe asked now and then: whether a look is worth while; throws what ends the wait
   */
  async #wait(
    passage: Passage,
    look: () => Promise<boolean>,
    wanted: (state: RoundState) => boolean,
    mayBe: () => Promise<boolean>,
  ): Promise<boolean> {
    const { lease, waitMs, receivedAt, signal } = passage;
    if (waitMs === 0) return false;
    const { metrics, leases, contention } = this.#context;
    const { directory } = this.#where(passage);
    return keptAlive(leases, lease, signal, async (ending) => {
      const over = new AbortController();
      const end = (): void => over.abort(ending.reason);
      ending.addEventListener('abort', end, { once: true });
      if (ending.aborted) end();
      let failure: Error | undefined;
      let found = false;
      const lookNow = (when: () => Promise<boolean>): void => {
        void untilNoReply(async () => (await when()) && (await look())).then(
          (done) => {
            if (!done) return;
            found = true;
            over.abort();
          },
          (error: Error) => {
            failure = error;
            over.abort();
          },
        );
      };
      let states = 0;
      const seen = (state: RoundState): boolean => {
        const done = wanted(state);
        if (states > 0 || done) metrics.wakeupsTotal.inc({ kind: KIND });
        if (states > 0 && !done) metrics.spuriousWakeupsTotal.inc({ kind: KIND });
        // A round is over, and the next one may begin.
        if (!done && state.round === undefined) lookNow(() => Promise.resolve(true));
        states += 1;
        return done;
      };
      const looks = setInterval(() => lookNow(mayBe), lease.ttlMs / LOOKS_PER_TTL);
      metrics.waiters.inc({ kind: KIND });
      const endWait = contention.begin(KIND, directory);
      try {
        const state = await this.#observers.until(directory, seen, receivedAt + waitMs, over.signal);
        if (failure !== undefined) throw failure;
        const done = state !== undefined || found;
        if (done) metrics.handoffsTotal.inc({ kind: KIND });
        return done;
      } finally {
        metrics.waiters.dec({ kind: KIND });
        endWait();
        clearInterval(looks);
        ending.removeEventListener('abort', end);
      }
    });
  }

  #peek(directory: string, path: string): Promise<[number, Stat | undefined, Stat | undefined]> {
    const { control } = this.#context;
    const deadline = performance.now() + LOOK_MS;
    return Promise.all([
      control.sync(directory, deadline),
      control.exists(path, deadline),
      control.exists(directory, deadline),
    ]);
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
    { receivedAt }: Passage,
    done: boolean,
    member: string,
    stat: Stat | undefined,
    expiresAt: number,
    directory: string,
    deadline: number,
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
    const { control } = this.#context;
    const until = Math.max(deadline, performance.now() + 1_000);
    const [parent, ready] = await Promise.all([
      control.exists(directory, until),
      control.exists(`${directory}/${READY}`, until),
    ]).catch((error: unknown) => {
      if (isTransient(error)) return [undefined, undefined] as const; // the answer stands without the number
      throw error;
    });
    return (parent?.numChildren ?? 0) - (ready === undefined ? 0 : 1);
  }
}

/** What ZooKeeper does not answer now is not so, as far as is known. */
async function untilNoReply(look: () => Promise<boolean>): Promise<boolean> {
  try {
    return await look();
  } catch (error) {
    if (isTransient(error)) return false;
    throw error;
  }
}

function otherSize(name: string, asked: number, size: number | undefined): PosternError {
  return new PosternError(
    'conflict',
    `Double barrier "${name}" gathers ${size ?? 'another number of'} members, not ${asked}; all who enter together say the same size.`,
    { members: size === undefined ? { name } : { name, size } },
  );
}

function nameTaken(name: string, member: string, { node }: OtherOwner): PosternError {
  const { leaseId, label, since, external } = describeMember(member, node);
  const who = external ? 'a client other than Postern’s' : label === '' ? `lease ${leaseId}` : `"${label}"`;
  return new PosternError(
    'conflict',
    `Member "${member}" of double barrier "${name}" is ${who} since ${new Date(since).toISOString()}.`,
    {
      members: {
        name,
        member,
        holder: external ? { external } : { leaseId, label, since: new Date(since).toISOString() },
      },
    },
  );
}
