/**
 * One process's part in the contention of all replicas (docs/adr/0022-contention-of-all-replicas.md): it is registered,
 * and answers each question in its own node.
 *
 *   watch the question ──▶ write the answer, in a new node if there is none ──▶ asleep ──asked, or session replaced──┐
 *      ▲                                                                                                            │
 *      └────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * Cost: one watch and one node; a write for each session, and for each question.
 */
import { SECOND } from '../../time.js';
import { isReason } from '../../zookeeper/errors.js';
import type { Coordination } from '../coordination.js';
import { keepLooking } from '../observing/keep-looking.js';
import { encodeAnswer, type Answerer } from './answer.js';

const REQUEST_MS = 5 * SECOND;

export class Answering {
  readonly #context: Coordination;
  readonly #self: Answerer;
  readonly #onFault: (error: unknown) => void;
  readonly #stop = new AbortController();

  constructor(context: Coordination, self: Answerer, onFault: (error: unknown) => void) {
    this.#context = context;
    this.#self = self;
    this.#onFault = onFault;
  }

  start(): void {
    void this.#run();
  }

  /** Its node goes with the session. */
  close(): void {
    this.#stop.abort();
  }

  #run(): Promise<void> {
    return keepLooking(
      this.#stop.signal,
      (signal) => this.#look(signal),
      (error) => this.#onFault(error),
    );
  }

  /** Answers the newest question, and returns when there is another one, or another session. */
  async #look(signal: AbortSignal): Promise<void> {
    const { control, layout } = this.#context;
    const deadline = performance.now() + REQUEST_MS;
    let wake = (): void => undefined;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    const { value, watch } = await control.watches.getData(layout.replicas, wake, deadline);
    if (value === undefined) return control.ensurePath(layout.replicas, deadline);
    signal.addEventListener('abort', wake, { once: true });
    try {
      if (signal.aborted) return;
      await this.#answer(value.stat.version, deadline);
      await woken;
    } finally {
      signal.removeEventListener('abort', wake);
      watch?.cancel();
    }
  }

  async #answer(question: number, deadline: number): Promise<void> {
    const { control, layout, contention } = this.#context;
    const zk = control.until(deadline);
    const path = layout.replica(control.sessionId);
    const answer = encodeAnswer(this.#self, question, contention.tellAll());
    try {
      await zk.set(path, answer);
    } catch (error) {
      if (!isReason(error, 'NO_NODE')) throw error;
      await zk.create(path, answer, 'ephemeral');
    }
  }
}
