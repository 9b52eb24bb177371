/**
 * Makes sure that the transactions a replica was involved in are decided without anybody asking: soon after their
 * deadline, and at once when a participant that joined or voted through it is lost. Its memory of them is not
 * authoritative: if it dies, any request decides them, and so does housekeeping (`chore.ts`).
 *
 *   attend ──▶ a timer ──at the deadline──▶ decide ──open (the clocks differ)──▶ a timer …
 *   follow ──▶ watch the participant's node ──it has gone──▶ decide
 *                 ▲                     └────the control session was replaced───┐
 *                 └─────────────────────────────────────────────────────────────┘
 *   decided, here or elsewhere ──▶ forgotten
 *
 * When it has as many as it may, the namespace with the most of them makes room.
 *
 * The watch is a child watch: an ephemeral node has no children, so it fires once, when the node goes (as in
 * `line/blockers.ts`). Each participant is watched by the replicas that took its join and its vote, two at most: what
 * that costs grows with the number of participants, not with its square.
 */
import { fullJitter, MINUTE, pause } from '../../time.js';
import { isTransient } from '../../zookeeper/errors.js';
import type { Watch } from '../../zookeeper/watch.js';
import type { Coordination } from '../coordination.js';
import { NewerRecordError } from '../known-record.js';
import type { TransactionDecisions } from './decisions.js';
import { joinedPath, stateOf, type TransactionRef } from './record.js';

const REQUEST_MS = 10_000;
const RETRY_BASE_MS = 50;
const RETRY_CAP_MS = 1_000;
/** So that not all replicas write at the same time. */
const SPREAD_MS = 50;
/** The clocks of leaders differ: a timer looks again at least this often. */
const LOOK_MS = MINUTE;
/** More than these are left to housekeeping. */
const ATTENDED_MAX = 20_000;

interface Attended {
  ref: TransactionRef;
  /** Epoch ms on the ensemble's clock. */
  deadlineAt: number;
  timer: NodeJS.Timeout | undefined;
  failures: number;
  followed: Map<string, Followed>;
}

interface Followed {
  watch: Watch | undefined;
  wake: () => void;
}

export class TransactionWatch {
  readonly #context: Coordination;
  readonly #decisions: TransactionDecisions;
  readonly #onFault: (error: unknown) => void;
  readonly #attended = new Map<string, Attended>();
  /** How many of them, by namespace. */
  readonly #counts = new Map<string, number>();
  readonly #stop = new AbortController();
  readonly #max: number;

  /** @param max so many are attended at once */
  constructor(
    context: Coordination,
    decisions: TransactionDecisions,
    onFault: (error: unknown) => void,
    max = ATTENDED_MAX,
  ) {
    this.#max = max;
    this.#context = context;
    this.#decisions = decisions;
    this.#onFault = onFault;
  }

  /** Transactions that this replica looks after. */
  get size(): number {
    return this.#attended.size;
  }

  stop(): void {
    this.#stop.abort();
    for (const { ref } of [...this.#attended.values()]) this.forget(ref);
  }

  /** Decides it when its deadline has passed. */
  attend(ref: TransactionRef, deadlineAt: number): void {
    if (this.#stop.signal.aborted || this.#attended.has(ref.path)) return;
    if (this.#attended.size >= this.#max && !this.#makeRoom(ref.namespace, deadlineAt)) return;
    const attended: Attended = { ref, deadlineAt, timer: undefined, failures: 0, followed: new Map() };
    this.#attended.set(ref.path, attended);
    this.#count(ref.namespace, 1);
    this.#schedule(attended);
  }

  /**
   * Decides it when this participant is lost. Only of one that is attended.
   * @param joinedAt a zxid at which its node was there
   */
  follow(ref: TransactionRef, participant: string, joinedAt: number): void {
    const attended = this.#attended.get(ref.path);
    if (attended === undefined || attended.followed.has(participant)) return;
    const followed: Followed = { watch: undefined, wake: () => undefined };
    attended.followed.set(participant, followed);
    void this.#follow(attended, participant, followed, joinedAt);
  }

  /** It is decided, or left to housekeeping. */
  forget(ref: TransactionRef): void {
    const attended = this.#attended.get(ref.path);
    if (attended === undefined) return;
    this.#attended.delete(ref.path);
    this.#count(ref.namespace, -1);
    clearTimeout(attended.timer);
    for (const { watch, wake } of attended.followed.values()) {
      watch?.forget(); // the nodes of a decided transaction are removed, so the event comes
      wake();
    }
  }

  /**
   * In place of the one with the latest deadline in the namespace that has the most: housekeeping has it attended again
   * before that deadline.
   * @returns false if that would be the new one
   */
  #makeRoom(namespace: string, deadlineAt: number): boolean {
    const own = this.#counts.get(namespace) ?? 0;
    let [largest, most] = [namespace, own];
    for (const [of, count] of this.#counts) if (count > most) [largest, most] = [of, count];
    let latest: Attended | undefined;
    for (const attended of this.#attended.values())
      if (attended.ref.namespace === largest && attended.deadlineAt > (latest?.deadlineAt ?? 0)) latest = attended;
    if (latest === undefined || (largest === namespace && latest.deadlineAt <= deadlineAt)) return false;
    this.forget(latest.ref);
    return true;
  }

  #count(namespace: string, more: number): void {
    const count = (this.#counts.get(namespace) ?? 0) + more;
    if (count === 0) this.#counts.delete(namespace);
    else this.#counts.set(namespace, count);
  }

  #stands(attended: Attended): boolean {
    return this.#attended.get(attended.ref.path) === attended;
  }

  #schedule(attended: Attended, atLeastMs = 0): void {
    if (!this.#stands(attended)) return;
    const remaining = attended.deadlineAt - this.#context.zooKeeperClock.now();
    const wait = Math.min(LOOK_MS, Math.max(atLeastMs, remaining)) + Math.random() * SPREAD_MS;
    attended.timer = setTimeout(() => void this.#look(attended), wait).unref();
  }

  async #look(attended: Attended): Promise<void> {
    if (this.#context.zooKeeperClock.now() < attended.deadlineAt) return this.#schedule(attended);
    try {
      const look = await this.#decisions.decide(attended.ref, performance.now() + REQUEST_MS);
      if (look === undefined || stateOf(look) !== 'open') return this.forget(attended.ref);
    } catch (error) {
      if (error instanceof NewerRecordError) return this.forget(attended.ref); // a replica of that release decides it
      if (!isTransient(error)) this.#onFault(error);
    }
    attended.failures += 1;
    this.#schedule(attended, fullJitter(attended.failures, RETRY_BASE_MS, RETRY_CAP_MS));
  }

  async #follow(attended: Attended, participant: string, followed: Followed, joinedAt: number): Promise<void> {
    for (let failures = 0; this.#stands(attended);) {
      try {
        if (await this.#hasGone(attended, participant, followed, joinedAt)) {
          await this.#decisions.decide(attended.ref, performance.now() + REQUEST_MS, participant);
          break;
        }
        failures = 0;
      } catch (error) {
        if (error instanceof NewerRecordError) return this.forget(attended.ref);
        if (!isTransient(error)) this.#onFault(error);
        failures += 1;
        await pause(fullJitter(failures, RETRY_BASE_MS, RETRY_CAP_MS), this.#stop.signal);
      }
    }
    attended.followed.delete(participant);
  }

  /** Waits for the next event of the participant's node. @returns whether it has gone */
  async #hasGone(attended: Attended, participant: string, followed: Followed, joinedAt: number): Promise<boolean> {
    const { control } = this.#context;
    const path = joinedPath(attended.ref, participant);
    const deadline = performance.now() + REQUEST_MS;
    let deleted = false;
    const woken = new Promise<void>((resolve) => (followed.wake = resolve));
    const { value, zxid, watch } = await control.watches.getChildren(
      path,
      ({ type }) => {
        deleted = type === 'deleted';
        followed.wake();
      },
      deadline,
    );
    if (value === undefined) {
      // A server that had not seen it come has not seen it go (protocol C2).
      if (zxid < joinedAt) await control.sync(path, deadline);
      return zxid >= joinedAt;
    }
    followed.watch = watch;
    if (!this.#stands(attended)) watch?.forget();
    else await woken;
    followed.watch = undefined;
    return deleted && this.#stands(attended);
  }
}
