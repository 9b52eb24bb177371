/**
 * How late the machine makes a test, measured while it happens: what a bound on time must be allowed beyond its
 * promise, and no more.
 *
 *   using noise = new Noise();
 *   …
 *   expect(elapsedMs - noise.ms).toBeLessThan(600);
 *
 * On a quiet machine it is next to nothing, so the promise is held to as it stands. Code that blocks this process for
 * long counts as noise too; nothing that waits does.
 */
import { LeaseExpiredError } from '../../src/errors.js';
import { openLease, TestControl } from './zookeeper/sessions.js';
import { eventually, passed } from './eventually.js';
import { sharedZooKeeper } from './start-zookeeper.js';
import { scaled } from './timing.js';

const EVERY_MS = 5;
/** Timers are a little late also on a machine that does nothing else. */
const USUAL_MS = 3;
/** What the shared server takes for an answer while others ask it too. */
const USUAL_ANSWER_MS = 10;

export class Noise implements Disposable {
  #lastAt = performance.now();
  #ms = 0;
  readonly #timer = setInterval(() => this.#look(), EVERY_MS);

  /** For how much of the time since the beginning this process could not run when it was its turn. */
  get ms(): number {
    this.#look();
    return this.#ms;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    const lateMs = now - this.#lastAt - EVERY_MS;
    if (lateMs > USUAL_MS) this.#ms += lateMs;
    this.#lastAt = now;
  }
}

/**
 * How late the shared server makes a test, beyond what this process does: it is asked all the time for something that
 * has to go the way of a write.
 */
export class ServerNoise implements AsyncDisposable {
  readonly #control: TestControl;
  readonly #process = new Noise();
  #askedAt = Infinity;
  #processMs = 0;
  #ms = 0;
  #over = false;
  readonly #asking: Promise<void>;

  private constructor(control: TestControl) {
    this.#control = control;
    this.#asking = this.#ask();
  }

  static async start(): Promise<ServerNoise> {
    return new ServerNoise(await TestControl.open(sharedZooKeeper()));
  }

  /** For how much of the time since the beginning the server did not answer when it should have. */
  get ms(): number {
    return this.#ms + this.#lateMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#over = true;
    await this.#asking;
    this.#process[Symbol.dispose]();
    await this.#control[Symbol.asyncDispose]();
  }

  async #ask(): Promise<void> {
    while (!this.#over) {
      this.#askedAt = performance.now();
      this.#processMs = this.#process.ms;
      await this.#control.sync('/').catch(() => undefined);
      this.#ms += this.#lateMs();
      this.#askedAt = Infinity;
      await passed(EVERY_MS);
    }
  }

  /** Of the answer that is waited for. */
  #lateMs(): number {
    const elapsedMs = performance.now() - this.#askedAt;
    return Math.max(0, elapsedMs - (this.#process.ms - this.#processMs) - USUAL_ANSWER_MS);
  }
}

/**
 * A session of the shared server beside all replicas, to see how long the server itself takes to end one that falls
 * silent.
 */
export interface ReferenceSession {
  /** Falls silent now. @returns when it was ended, monotonic */
  fallSilent(): Promise<number>;
}

export async function openReferenceSession(ttlMs: number): Promise<ReferenceSession> {
  const session = await openLease(sharedZooKeeper(), { timeoutMs: ttlMs });
  return {
    async fallSilent() {
      await session.sync().catch((error: unknown) => {
        if (!(error instanceof LeaseExpiredError)) throw error;
      });
      await eventually('the server has ended the session', () => session.ended, { withinMs: ttlMs + scaled(10_000) });
      return performance.now();
    },
  };
}
