/**
 * Taking part in a transaction: the second step of `transaction.ts`, on the session of the participant's lease.
 *
 *   1. `sync`, and in the same round trip read the transaction, who has joined as this participant, and whether it has
 *      voted
 *   2. decided: told. Taken by another lease: 409. Another vote than before: 409. Due: it is decided, and told. Done
 *      before: told.
 *   3. write what is missing, in one transaction that checks that it is still open; behind it in the same round trip,
 *        read its numbers refused: begin again at 1
 *   4. the numbers say that there is something to decide: decide
 *
 * The vote that is written last is answered by a server that has all the others, so at 4 its numbers are complete. It
 * may have been written by a replica that dies before 4: then its client, which has no answer, repeats it, and is at 2
 * with a transaction that is due.
 *
 * A vote to abort is the decision: it is written as such, by the lease's session, which proves that the lease lives.
 */
import { InvalidError, PosternError, StandingConflictError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Requester } from '../../time.js';
import { isReason, orUnknown, unless } from '../../zookeeper/errors.js';
import type { LeaseSession } from '../../zookeeper/lease-session.js';
import type { MultiOperation, NodeData, Stat } from '../../zookeeper/operations.js';
import type { Coordination } from '../coordination.js';
import { abortedRecord, OPEN_VERSION, type TransactionDecisions } from './decisions.js';
import {
  commitPath,
  deadlineOf,
  decidedVote,
  encodeTransaction,
  joinedPath,
  lookAt,
  lookOf,
  progressOf,
  rollOf,
  stateOf,
  type TransactionLook,
  type TransactionRef,
  type Vote,
} from './record.js';
import type { TransactionWatch } from './watch.js';

export interface ParticipantRequest {
  lease: Lease;
  ref: TransactionRef;
  participant: string;
  /**
   * Whether the caller may know one of these participants, and so be told that there is such a transaction, and none in
   * it of that name.
   */
  knows: (participants: readonly string[]) => boolean;
  deadline: number;
  requester: Requester;
}

export interface Participation {
  look: TransactionLook;
  /** Epoch ms: the lease lives at least until then. */
  expiresAt: number;
}

interface Seen {
  look: TransactionLook;
  joined: NodeData | undefined;
  hasVoted: boolean;
}

type Step = (session: LeaseSession, seen: Seen) => Promise<TransactionLook | typeof AGAIN | typeof WRITTEN>;

const AGAIN = Symbol('look again');
/** What was missing is written, and what has become of the transaction is to be read. */
const WRITTEN = Symbol('written; look again');

export class Participants {
  readonly #context: Coordination;
  readonly #decisions: TransactionDecisions;
  readonly #watch: TransactionWatch;

  constructor(context: Coordination, decisions: TransactionDecisions, watch: TransactionWatch) {
    this.#context = context;
    this.#decisions = decisions;
    this.#watch = watch;
  }

  /**
   * Binds the participant to the lease.
   * @throws PosternError `not-found`, `conflict`; InvalidError, LeaseExpiredError, NoReplyError
   */
  join(request: ParticipantRequest): Promise<Participation> {
    return this.#onLease(request, async (session, { look, joined }) => {
      if (joined !== undefined) return this.#follow(request, look, joined.zxid);
      return this.#write(session, request, look, [create(request, joinedPath)]);
    });
  }

  /** Votes, and decides if that was the last vote missing. Joins before, if need be. @throws as `join` */
  vote(request: ParticipantRequest, vote: Vote): Promise<Participation> {
    const { participant } = request;
    return this.#onLease(
      request,
      async (session, { look, joined, hasVoted }) => {
        if (vote === 'abort') {
          if (hasVoted) throw votedBefore(request, look, 'commit', vote);
          return this.#voteAbort(session, request, look);
        }
        if (joined !== undefined && hasVoted) return this.#follow(request, look, joined.zxid);
        const missing = joined === undefined ? [create(request, joinedPath)] : [];
        return this.#write(session, request, look, [...missing, create(request, commitPath)]);
      },
      (look) => {
        const { decision } = look.record;
        const before = decision === undefined ? undefined : decidedVote(decision, participant);
        if (before !== undefined && before !== vote) throw votedBefore(request, look, before, vote);
      },
    );
  }

  /** @param told called with a transaction that is decided, before it is answered */
  async #onLease(
    request: ParticipantRequest,
    step: Step,
    told: (look: TransactionLook) => void = () => undefined,
  ): Promise<Participation> {
    const { leases } = this.#context;
    const { lease, ref, deadline, requester } = request;
    let wrote = false;
    const take = async (session: LeaseSession): Promise<Participation> => {
      for (;;) {
        const seen = await this.#see(session, request);
        const settled = await this.#settled(request, seen);
        const look = settled ?? (await step(session, seen));
        if (settled !== undefined) told(settled);
        if (look === WRITTEN) wrote = true;
        else if (look !== AGAIN) return { look, expiresAt: leases.expiresAt(session) };
        if (performance.now() > deadline)
          throw new PosternError('conflict', `Transaction "${ref.id}" was written to meanwhile; repeat the request.`, {
            outcome: wrote ? 'unknown' : 'not-applied',
          });
      }
    };
    const taking = leases.sessions.useRepeatedly(lease, deadline, take, requester);
    const participation = await orUnknown(taking, () => wrote);
    const { look, expiresAt } = participation;
    if (!this.#decisions.isDue(look)) return participation;
    const decided = (await orUnknown(this.#decisions.decide(ref, deadline))) ?? look;
    if (stateOf(decided) !== 'open') told(decided);
    return { look: decided, expiresAt };
  }

  async #see(session: LeaseSession, { lease, ref, participant, knows, deadline }: ParticipantRequest): Promise<Seen> {
    const zk = session.until(deadline);
    const [node, joined, commit] = await session.readToWrite(
      ref.path,
      () =>
        Promise.all([
          zk.find(ref.path),
          zk.find(joinedPath(ref, participant)),
          zk.exists(commitPath(ref, participant)),
        ]),
      ([there, by, voted]) =>
        there !== undefined && voted === undefined && (by === undefined || by.stat.ephemeralOwner === lease.sessionId),
      deadline,
    );
    if (node === undefined) throw notFound(ref);
    const look = lookAt(ref, node);
    if (!look.record.participants.includes(participant)) {
      if (!knows(look.record.participants)) throw notFound(ref);
      throw new InvalidError('participant', participant, 'one of those that the transaction was created with');
    }
    return { look, joined, hasVoted: commit !== undefined };
  }

  /** The transaction, when there is nothing to be written any more. */
  async #settled(request: ParticipantRequest, { look, joined }: Seen): Promise<TransactionLook | undefined> {
    const { ref, lease, participant, deadline } = request;
    if (stateOf(look) !== 'open') {
      this.#decisions.noticed(look);
      return look;
    }
    if (this.#decisions.isDue(look)) {
      const decided = await this.#decisions.decide(ref, deadline);
      if (decided === undefined) throw notFound(ref);
      if (stateOf(decided) !== 'open') return decided;
    }
    if (joined !== undefined && joined.stat.ephemeralOwner !== lease.sessionId) throw takenBy(participant, joined);
    return undefined;
  }

  /** @param missing what is to be created, the vote last */
  async #write(
    session: LeaseSession,
    request: ParticipantRequest,
    look: TransactionLook,
    missing: readonly MultiOperation[],
  ): Promise<TransactionLook | typeof AGAIN | typeof WRITTEN> {
    const { ref, deadline } = request;
    const zk = session.until(deadline);
    const writing = zk.multi([{ type: 'check', path: ref.path, version: OPEN_VERSION }, ...missing]);
    const reading = orUnknown(zk.exists(ref.path));
    reading.catch(() => undefined); // it counts only if the write came through
    const written = await unless(writing, 'NO_NODE', 'BAD_VERSION', 'NODE_EXISTS');
    if (written === undefined) return AGAIN;
    const stat = await reading;
    const [, created] = written as [unknown, { stat: Stat }];
    // Where the write had to wait (for how much the lease owns), the reading went first and does not count it.
    if (stat === undefined || stat.pzxid < created.stat.czxid) return WRITTEN;
    // Decided in the very moment behind it: the record is read.
    if (progressOf(stat, look.record.participants.length) === 'decided') return WRITTEN;
    return this.#follow(request, lookOf(ref, look.record, stat), created.stat.czxid);
  }

  async #voteAbort(
    session: LeaseSession,
    { ref, participant, deadline }: ParticipantRequest,
    look: TransactionLook,
  ): Promise<TransactionLook | typeof AGAIN> {
    const zk = session.until(deadline);
    const listing = await zk.list(ref.path);
    if (listing === undefined) return AGAIN;
    const roll = rollOf(listing.children);
    const record = abortedRecord(look.record, roll, { reason: 'voted', causedBy: [participant] });
    try {
      const stat = await zk.set(ref.path, encodeTransaction(record), OPEN_VERSION);
      const decided = lookOf(ref, record, stat);
      this.#decisions.written(decided);
      return decided;
    } catch (error) {
      if (!isReason(error, 'NO_NODE', 'BAD_VERSION')) throw error;
      return AGAIN;
    }
  }

  #follow({ ref, participant }: ParticipantRequest, look: TransactionLook, zxid: number): TransactionLook {
    this.#watch.attend(ref, deadlineOf(look));
    this.#watch.follow(ref, participant, zxid);
    return look;
  }
}

/** The node by which the lease takes part, or votes commit. */
function create(
  { ref, participant, lease }: ParticipantRequest,
  pathOf: (ref: TransactionRef, participant: string) => string,
): MultiOperation {
  const { leaseId, principal, label } = lease;
  const data = Buffer.from(JSON.stringify({ leaseId, principal, label }));
  return { type: 'create', path: pathOf(ref, participant), data, mode: 'ephemeral' };
}

export function notFound({ id, namespace }: TransactionRef): PosternError {
  return new PosternError('not-found', `There is no transaction "${id}" in namespace "${namespace}".`);
}

function takenBy(participant: string, { data }: NodeData): PosternError {
  const { leaseId, label } = JSON.parse(data.toString('utf8')) as { leaseId: string; label: string };
  return new StandingConflictError(
    `Participant "${participant}" is bound to another lease, which lives; when it ends, the transaction is aborted.`,
    { holder: { leaseId, label } },
  );
}

function votedBefore(
  { participant }: ParticipantRequest,
  look: TransactionLook,
  before: Vote,
  vote: Vote,
): PosternError {
  return new StandingConflictError(
    `Participant "${participant}" has voted ${before}, and cannot vote ${vote}; the transaction is ${stateOf(look)}.`,
    { vote: before, state: stateOf(look) },
  );
}
