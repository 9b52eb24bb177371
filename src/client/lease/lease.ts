/**
 * A lease as its client sees it: alive until its deadline, which heartbeats move.
 *
 * Guarantee: the deadline is `marginMs` before the earliest moment at which ZooKeeper may free what the lease holds,
 * because the TTL is counted from when the answered heartbeat was *sent*, on a clock that nobody sets. Once it has
 * passed nothing of the lease counts any more, whatever is answered later.
 * Not guaranteed: that the program notices in time. While it is stopped, or its event loop is blocked, nothing runs
 * here; `judge` is therefore called whenever the program asks, before a timer has had its turn.
 *
 *   granted ──answered heartbeat──▶ alive (deadline moves)
 *   alive ──deadline, 410, close──▶ ended: every hold is lost; it stays so
 */
import { now } from './clock.js';
import type { Schemas } from '../contract.js';
import { HoldLostError, notOfGateway, PosternError, type LossCause } from '../errors.js';
import type { Gateways } from '../gateways/gateways.js';
import type { Settings } from '../options.js';

/** One of them may be lost. */
const HEARTBEATS_PER_TTL = 3;
/** A heartbeat that is not answered for this part of the TTL is followed by another one, at another replica. */
const PATIENCE_PER_TTL = 12;
const RETRY_MIN_MS = 20;

/** Something that goes with the lease: a hold, a membership, a claim. */
export interface Held {
  readonly kind: string;
  readonly name: string;
  /** As the answers to heartbeats name it. */
  readonly holdId: string;
  lose(reason: HoldLostError): void;
  /** Somebody with the right to do so asks for it back. */
  revoke(revocation: Schemas['Revocation']): void;
}

export class Lease {
  readonly leaseId: string;
  readonly ttlMs: number;
  readonly #settings: Settings;
  readonly #gateways: Gateways;
  readonly #held = new Set<Held>();
  readonly #ended = new AbortController();
  #token: string;
  /** When the last heartbeat that was answered had been sent. */
  #answeredSentAt: number;
  #failures = 0;
  /** What the last heartbeat was answered, if that was a refusal. */
  #refusal: string | undefined;
  /** The replica that was sent a heartbeat and has not answered. */
  #unanswered: number | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #deadlineTimer: NodeJS.Timeout | undefined;

  /** @param sentAt when the request that granted it was sent */
  constructor(granted: Schemas['GrantedLease'], sentAt: number, gateways: Gateways, settings: Settings) {
    this.leaseId = granted.leaseId;
    this.ttlMs = granted.ttlMs;
    this.#token = granted.leaseToken;
    this.#answeredSentAt = sentAt;
    this.#gateways = gateways;
    this.#settings = settings;
    this.#plan(this.#nextDueMs());
    this.#watchDeadline();
  }

  /** Secret. A heartbeat may have replaced it. */
  get token(): string {
    return this.#token;
  }

  /** Aborts when the lease has ended, or has to be treated as if it had. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** On the clock of this client. */
  get deadline(): number {
    return this.#answeredSentAt + this.ttlMs - this.#settings.marginMs;
  }

  /** Whether it is alive at this moment, by the clock and not by timers. If not, all its holds are lost by then. */
  judge(): boolean {
    if (this.#ended.signal.aborted) return false;
    if (now() < this.deadline) return true;
    const silentFor = `${Math.round(now() - this.#answeredSentAt)} ms`;
    const what =
      this.#refusal === undefined
        ? `no heartbeat has been answered for ${silentFor}`
        : `no heartbeat has succeeded for ${silentFor}, and the last one was refused: ${this.#refusal}`;
    this.end('lease-expired', what);
    return false;
  }

  /** From now on `held` is told what becomes of it; at once if the lease has ended. */
  add(held: Held): void {
    if (!this.judge()) held.lose(this.#ended.signal.reason as HoldLostError);
    else this.#held.add(held);
    this.#keepProcess();
  }

  remove(held: Held): void {
    this.#held.delete(held);
    this.#keepProcess();
  }

  /** It has ended, or is given up. Everything it holds is lost. */
  end(cause: LossCause, detail: string): void {
    if (this.#ended.signal.aborted) return;
    clearTimeout(this.#heartbeatTimer);
    clearTimeout(this.#deadlineTimer);
    const reason = new HoldLostError(cause, detail);
    this.#ended.abort(reason);
    for (const held of this.#held) held.lose(reason);
    this.#held.clear();
  }

  /** Whether an answer to a request under this lease says that the lease is gone; then it ends here too. */
  endedBy(error: unknown): boolean {
    if (!(error instanceof PosternError)) return false;
    if (error.code !== 'lease-expired' && error.code !== 'invalid-lease-token') return false;
    this.end('lease-expired', error.detail);
    return true;
  }

  #plan(afterMs: number): void {
    clearTimeout(this.#heartbeatTimer);
    this.#heartbeatTimer = this.#timer(() => void this.#heartbeat(), afterMs);
  }

  #watchDeadline(): void {
    clearTimeout(this.#deadlineTimer);
    if (!this.judge()) return;
    this.#deadlineTimer = this.#timer(() => this.#watchDeadline(), Math.ceil(this.deadline - now()));
  }

  #nextDueMs(): number {
    return Math.max(0, this.#answeredSentAt + this.ttlMs / HEARTBEATS_PER_TTL - now());
  }

  /** One heartbeat. It is not cancelled when the next one is sent: whichever is answered counts. */
  async #heartbeat(): Promise<void> {
    if (!this.judge()) return;
    const patienceMs = Math.max(RETRY_MIN_MS, this.ttlMs / PATIENCE_PER_TTL);
    this.#plan(patienceMs);
    if (!this.#settings.alive()) return;
    if (this.#unanswered !== undefined) this.#gateways.failed(this.#unanswered);
    this.#unanswered = this.#gateways.index;
    const sentAt = now();
    try {
      const { status, body } = await this.#gateways.once(
        'POST /v1/leases/self/heartbeat',
        {},
        { leaseToken: this.#token, timeoutMs: this.deadline - sentAt, signals: [this.ended] },
      );
      if (!this.#isMine(body)) throw notOfGateway(status);
      this.#answered(body, sentAt);
    } catch (error) {
      if (this.ended.aborted || this.endedBy(error)) return;
      this.#failures += 1;
      this.#refusal = error instanceof PosternError && error.problem !== undefined ? error.detail : undefined;
      this.#plan(Math.random() * Math.min(patienceMs, RETRY_MIN_MS * 2 ** this.#failures));
    }
  }

  /** Whatever else answers 200 must not move the deadline. */
  #isMine(body: Partial<Schemas['Heartbeat']> | undefined): boolean {
    return body?.leaseId === this.leaseId && Array.isArray(body.lost) && Array.isArray(body.revocations);
  }

  #answered({ leaseToken, lost, revocations }: Schemas['Heartbeat'], sentAt: number): void {
    if (this.ended.aborted) return;
    this.#failures = 0;
    this.#refusal = undefined;
    this.#unanswered = undefined;
    if (leaseToken !== undefined) this.#token = leaseToken;
    if (sentAt > this.#answeredSentAt) this.#answeredSentAt = sentAt;
    this.#plan(this.#nextDueMs());
    this.#watchDeadline();
    for (const { kind, name, holdId, reason } of lost)
      for (const held of this.#find(kind, name, holdId)) {
        const cause = reason === 'broken' ? 'revoked' : 'lost';
        held.lose(new HoldLostError(cause, `${kind} "${name}" is gone although the lease is alive: ${reason}`));
        this.remove(held);
      }
    for (const revocation of revocations)
      for (const held of this.#find(revocation.kind, revocation.name, revocation.holdId)) held.revoke(revocation);
  }

  #find(kind: string, name: string, holdId: string): Held[] {
    return [...this.#held].filter((held) => held.kind === kind && held.name === name && held.holdId === holdId);
  }

  /** Timers keep the process alive only while there is something to keep. */
  #timer(run: () => void, ms: number): NodeJS.Timeout {
    const timer = setTimeout(run, ms);
    return this.#held.size > 0 ? timer : timer.unref();
  }

  #keepProcess(): void {
    for (const timer of [this.#heartbeatTimer, this.#deadlineTimer])
      if (this.#held.size > 0) timer?.ref();
      else timer?.unref();
  }
}
