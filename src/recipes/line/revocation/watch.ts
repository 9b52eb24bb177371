/**
 * The watch that every replica keeps on the list of pending revocations, and its timers: so a hold is broken on time
 * whichever replica took the request, as long as one lives.
 *
 *   listing ──▶ for each entry a timer ──at breakAt──▶ break ──▶ struck from the list
 *      ▲                                                             │
 *      └────────── the list changed, or the session was replaced ◀───┘
 *
 * Cost: one watch per replica, and one listing per replica and change. Revocations are rare; the list holds only those
 * that are pending. All replicas try to break, spread over some milliseconds: the first one succeeds, and its change of
 * the list stops the timers of the others. While there is no connection the timers try again; after it has come back
 * the list is read anew where it changed.
 */
import { MINUTE } from '../../../time.js';
import { NoReplyError } from '../../../zookeeper/errors.js';
import { breakIfDue } from './break-hold.js';
import type { Coordination } from '../../coordination.js';
import { keepLooking, RETRY_CAP_MS } from '../../observing/keep-looking.js';
import { parsePending, type Pending } from './record.js';

const REQUEST_MS = 5_000;
const SPREAD_MS = 50;
/** The clocks of leaders differ: a timer looks again at least this often. */
const LOOK_MS = MINUTE;

export class RevocationWatch {
  readonly #context: Coordination;
  readonly #onFault: (error: unknown) => void;
  readonly #stop = new AbortController();
  /** By name in the list. */
  readonly #pending = new Map<string, { revocation: Pending; timer: NodeJS.Timeout | undefined }>();

  constructor(context: Coordination, onFault: (error: unknown) => void) {
    this.#context = context;
    this.#onFault = onFault;
  }

  start(): void {
    void this.#run();
  }

  stop(): void {
    this.#stop.abort();
    for (const name of [...this.#pending.keys()]) this.#forget(name);
  }

  #run(): Promise<void> {
    return keepLooking(
      this.#stop.signal,
      (signal) => this.#look(signal),
      (error) => this.#onFault(error),
    );
  }

  /** Reads the list, and returns when it has changed. */
  async #look(signal: AbortSignal): Promise<void> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    signal.addEventListener('abort', wake, { once: true });
    try {
      const { value, watch } = await control.watches.getChildren(layout.pendingRevocations, wake, deadline);
      if (value === undefined) return await control.ensurePath(layout.pendingRevocations, deadline);
      if (!signal.aborted) this.#take(value.children);
      await woken;
      watch?.cancel();
    } finally {
      signal.removeEventListener('abort', wake);
    }
  }

  #take(names: readonly string[]): void {
    const listed = new Set(names);
    for (const [name, { revocation }] of this.#pending) {
      if (listed.has(name)) continue;
      this.#forget(name);
      this.#context.granted.announce(revocation.leaseId);
    }
    for (const name of names) {
      const revocation = parsePending(name);
      if (revocation === undefined || this.#pending.has(name)) continue;
      this.#pending.set(name, { revocation, timer: undefined });
      this.#context.granted.announce(revocation.leaseId);
      // Of what is only asked for there is nothing to be done; housekeeping strikes it when it is over.
      if (revocation.breakAt !== undefined)
        this.#schedule(name, revocation.breakAt - this.#context.zooKeeperClock.now());
    }
  }

  #schedule(name: string, ms: number): void {
    const entry = this.#pending.get(name);
    if (entry === undefined || this.#stop.signal.aborted) return;
    const wait = Math.min(LOOK_MS, Math.max(0, ms)) + Math.random() * SPREAD_MS;
    entry.timer = setTimeout(() => void this.#break(name, entry.revocation), wait);
  }

  async #break(name: string, { leaseId, holdId }: Pending): Promise<void> {
    try {
      const wait = await breakIfDue(this.#context, leaseId, holdId, performance.now() + REQUEST_MS);
      if (wait !== undefined) this.#schedule(name, wait);
    } catch (error) {
      if (!(error instanceof NoReplyError)) this.#onFault(error);
      this.#schedule(name, RETRY_CAP_MS);
    }
  }

  #forget(name: string): void {
    clearTimeout(this.#pending.get(name)?.timer);
    this.#pending.delete(name);
  }
}
