/**
 * Starts, finishes and forgets occurrences: read behind a quorum, decide (`decide.ts`), one transaction; begun again if
 * somebody else wrote in between, or if its answer was lost.
 *
 *   read ──nothing to be written──▶ told
 *     │  └──▶ turn ─▶ read ─▶ write at the version that was read, with a check of the caller's lease ──▶ told
 *     │                 └◀── BAD_VERSION, or no answer: what is read next shows whether it was done
 *     └◀── somebody's attempt runs, and the caller waits: its end wakes
 *
 * Whoever is only refused writes nothing and waits for no turn; so a crowd that comes late costs shared readings.
 */
import { LeaseExpiredError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Awaited, Caller } from '../../time.js';
import type { BoundClient } from '../../zookeeper/bound.js';
import { ensembleNow } from '../../zookeeper/ensemble-time.js';
import { isReason, orUnknown } from '../../zookeeper/errors.js';
import type { MultiOperation } from '../../zookeeper/operations.js';
import { parentOf } from '../../zookeeper/paths.js';
import { AGAIN, persisting } from '../../zookeeper/retrying.js';
import type { Coordination } from '../coordination.js';
import { keptAlive } from '../waiting/kept-alive.js';
import { Turns } from '../waiting/turns.js';
import { withNewLease, type NewLease, type WithLease } from '../with-lease.js';
import { decideFinish, decideForget, decideStart, type RunsRead, type StartDecision } from './decide.js';
import { runObservers, type RunObservers } from './observers.js';
import { readRunsNode } from './read.js';
import {
  decodeRuns,
  encodeRuns,
  stateOf,
  type Occurrence,
  type RunOutcome,
  type RunRecord,
  type RunRef,
  type RunView,
  type WhichOccurrence,
} from './run.js';

export interface StartRun extends Awaited {
  readonly ref: RunRef;
  readonly lease: Lease;
  readonly which: WhichOccurrence;
  readonly maxAttempts: number;
  /** Tells two starters of one lease apart; empty for none. */
  readonly requestId: string;
  /** Until when to wait for somebody else's attempt to end, monotonic; the deadline is for the requests after that. */
  readonly waitUntil: number;
  /** Ends the wait. */
  readonly signal: AbortSignal;
}

/** Of a caller whose lease is made in the same request. */
export interface FirstStart extends Omit<StartRun, 'lease'> {
  readonly requester: Caller;
}

/** `expiresAt`: the lease lives at least until then; epoch ms. */
export type Start =
  | (Extract<StartDecision, { started: true }> & { readonly expiresAt: number })
  | Extract<StartDecision, { started: false }>;

export interface FinishRun extends Awaited {
  readonly ref: RunRef;
  readonly lease: Lease;
  readonly occurrence: string;
  readonly outcome: RunOutcome;
  readonly note: string | undefined;
  readonly fencingToken: number;
}

/** What was read, and where a write follows on it. */
interface Found extends RunsRead {
  readonly version: number;
  /** Of the last write: a token that is higher than all that were given before it, and lower than all after ours. */
  readonly mzxid: number;
}

/** The check that the caller's lease lives stands last in its transaction, so that what else is refused comes first. */
const LIFE_INDEX = 1;

/** Of one replica. */
export class Runs {
  readonly observers: RunObservers;
  readonly #context: Coordination;
  readonly #remembered: number;
  readonly #turns = new Turns();

  /** @param remembered how many occurrences of a name are remembered */
  constructor(context: Coordination, remembered: number) {
    this.#context = context;
    this.#remembered = remembered;
    this.observers = runObservers(context.control, context.layout);
  }

  /** Names that are being written. */
  get size(): number {
    return this.#turns.size;
  }

  ref(namespace: string, name: string): RunRef {
    return { namespace, name, path: this.#context.layout.run(namespace, name) };
  }

  /**
   * Asks for the attempt at an occurrence; the same lease and requestId find it again.
   * @throws PosternError `conflict`, `too-many-names`; LeaseExpiredError, ClientGoneError, NoReplyError
   */
  async start(asked: StartRun): Promise<Start> {
    const { metrics } = this.#context;
    /** A state that the observer still reports although it is outdated. */
    let outdated: string | undefined;
    for (let { which } = asked; ;) {
      const told = await this.#startNow({ ...asked, which });
      // Whoever has begun to wait for an occurrence means that one, however long it takes.
      which = told.record.occurrence;
      if (!told.started && told.state === 'running' && performance.now() < asked.waitUntil) {
        outdated = await this.#untilEnded(asked, which, outdated);
        if (outdated !== undefined) continue;
      }
      const outcome = told.started ? (told.runs === undefined ? 'repeated' : 'started') : told.state;
      metrics.runStartsTotal.inc({ outcome });
      return told;
    }
  }

  /**
   * As `start`, with a lease that is made for it, or was by an earlier attempt of this request. An attempt cannot be
   * given back, as it would count as lost: one that may have begun stays for the repetition, whatever becomes of the
   * answer, until the lease lapses.
   * @throws as `start` and `withNewLease`
   */
  startWithLease(newLease: NewLease, asked: FirstStart): Promise<WithLease<Start>> {
    return withNewLease<Start>(this.#context, {
      newLease,
      subject: ['run', asked.ref.name],
      requestId: asked.requestId,
      deadline: asked.deadline,
      requester: asked.requester,
      work: (lease) => this.start({ ...asked, lease }),
      isInVain: ({ started }) => !started,
      endsWhenGone: false,
    });
  }

  /**
   * Ends the attempt of a lease.
   * @throws PosternError `not-holder`; LeaseExpiredError, ClientGoneError, NoReplyError
   */
  async finish({ ref, lease, ...asked }: FinishRun): Promise<Occurrence> {
    const now = await ensembleNow(this.#context, asked.deadline);
    const occurrence = await this.#change('the end of the run', ref, asked, async (found, write) => {
      const { record, runs } = decideFinish(ref.name, found?.runs ?? [], { ...asked, leaseId: lease.leaseId, now });
      if (runs !== undefined) await write(runs, this.#lifeOf(lease));
      return {
        record,
        state: stateOf(record, found?.living.has(record.leaseId) === true),
        isWritten: runs !== undefined,
      };
    });
    const { isWritten, ...finished } = occurrence;
    if (isWritten) this.#context.metrics.runFinishesTotal.inc({ outcome: asked.outcome });
    return finished;
  }

  /**
   * Forgets an occurrence, so that it can be started again.
   * @throws PosternError `not-found`, `conflict` while it runs; ClientGoneError, NoReplyError
   */
  async forget(ref: RunRef, occurrence: string, awaited: Awaited): Promise<void> {
    let isSent = false;
    await this.#change('the removal of the occurrence', ref, awaited, async (found, write) => {
      const read = found ?? { runs: [], living: new Set<string>() };
      // Removed by a try that was not answered.
      if (isSent && read.runs.every((run) => run.occurrence !== occurrence)) return;
      const runs = decideForget(ref.name, read, occurrence);
      isSent = true;
      await write(runs);
    });
  }

  async #startNow(asked: StartRun): Promise<Start> {
    const { ref, lease, which, maxAttempts, requestId, deadline } = asked;
    const { leases } = this.#context;
    const now = await ensembleNow(this.#context, deadline);
    const starter = {
      leaseId: lease.leaseId,
      guid: lease.guid('run', ref.name, requestId),
      principal: lease.principal,
      label: lease.label,
    };
    const decide = (found: Found | undefined): StartDecision =>
      decideStart(ref.name, found ?? { runs: [], living: new Set() }, {
        which,
        maxAttempts,
        starter,
        fencingToken: found?.mzxid ?? 0,
        now,
        remembered: this.#remembered,
      });
    const first = decide(await this.#find(ref, this.#context.control.until(deadline)));
    if (!first.started) return first;
    const decided = await this.#change('the start of the run', ref, asked, async (found, write) => {
      if (found === undefined) return this.#make(ref, deadline);
      if (found.mzxid < this.#context.control.numberedFrom) {
        // The next token is made of this write, which lies above the floor (protocol C99).
        await write(found.runs);
        return AGAIN;
      }
      const decision = decide(found);
      // Also where the attempt is the caller's already: a finish that was given up is refused then (protocol C35).
      if (decision.started) await write(decision.runs ?? found.runs, this.#lifeOf(lease));
      return decision;
    });
    if (!decided.started) return decided;
    return { ...decided, expiresAt: await orUnknown(leases.touch(lease, deadline)) };
  }

  /** @returns the ETag of the state in which the attempt does not run; undefined where the wait ended before */
  async #untilEnded(
    { ref, lease, waitUntil, signal }: StartRun,
    occurrence: string,
    outdated: string | undefined,
  ): Promise<string | undefined> {
    const isOver = ({ occurrences, etag }: RunView): boolean =>
      etag !== outdated &&
      occurrences.every(({ record, state }) => record.occurrence !== occurrence || state !== 'running');
    const ended = await keptAlive(this.#context.leases, lease, signal, (ending) =>
      this.observers.until(ref, isOver, waitUntil, ending),
    );
    return ended?.etag;
  }

  /**
   * Changes the occurrences of a name, one after the other within this replica.
   * @param step decides on what was read (undefined: there is no node yet), and writes at most once, last
   */
  #change<T>(
    what: string,
    ref: RunRef,
    { deadline, requester }: Awaited,
    step: (found: Found | undefined, write: Write) => Promise<T | typeof AGAIN>,
  ): Promise<T> {
    const zk = this.#context.control.writingFor(requester).until(deadline);
    const once = async (maybeApplied: boolean): Promise<T | typeof AGAIN> => {
      const found = await this.#find(ref, zk);
      try {
        return await step(found, async (runs, life) => {
          const set = {
            type: 'setData' as const,
            path: ref.path,
            data: encodeRuns(runs),
            version: found?.version ?? 0,
          };
          await zk.multi(life === undefined ? [set] : [set, life]);
        });
      } catch (error) {
        if (!isReason(error, 'BAD_VERSION', 'NO_NODE')) throw error;
        if (error.failedIndex === LIFE_INDEX)
          throw new LeaseExpiredError(error, maybeApplied ? 'unknown' : 'not-applied');
        return AGAIN;
      }
    };
    return this.#turns.take([ref.path], deadline, () => persisting(what, deadline, once));
  }

  async #find(ref: RunRef, zk: BoundClient): Promise<Found | undefined> {
    const { node, living } = await zk.fresh(() => readRunsNode(zk, this.#context.layout, ref));
    if (node === undefined) return undefined;
    const { version, mzxid } = node.stat;
    return { runs: decodeRuns(ref.name, node), living, version, mzxid };
  }

  /** An empty node, so that its zxid is known before the first fencing token is given. */
  async #make({ path }: RunRef, deadline: number): Promise<typeof AGAIN> {
    const zk = this.#context.control.until(deadline);
    await this.#context.names.admit(parentOf(path), deadline);
    await zk.ensure(path);
    return AGAIN;
  }

  #lifeOf({ namespace, leaseId }: Lease): MultiOperation {
    return { type: 'check', path: this.#context.layout.lease(namespace, leaseId) };
  }
}

/** Replaces the occurrences; with a lease's own node, only while that is there. */
type Write = (runs: readonly RunRecord[], life?: MultiOperation) => Promise<void>;
