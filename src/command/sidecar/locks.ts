/** Locks that the program holds without a lease of its own. All are lost in the moment in which it is not well. */
import type { Hold, Postern } from '../../client/index.js';
import { Refusal } from './refusal.js';

/** Held and waited for, together. */
const LOCKS_MAX = 256;

export class Locks {
  readonly #postern: Postern;
  readonly #over: AbortSignal;
  readonly #held = new Map<string, Hold>();
  readonly #waits = new Set<AbortController>();

  /** @param over aborts when all of them are lost */
  constructor(postern: Postern, over: AbortSignal) {
    this.#postern = postern;
    this.#over = over;
    over.addEventListener('abort', () => this.#waits.forEach((wait) => wait.abort()), { once: true });
  }

  /** What is held in this moment. */
  get held(): Hold[] {
    return this.#over.aborted ? [] : [...this.#held.values()].filter((hold) => hold.ok());
  }

  find(name: string): Hold | undefined {
    return this.held.find((hold) => hold.name === name);
  }

  /**
   * @param left aborts when nobody waits for the answer any more
   * @throws Refusal; PosternError `lock-held` if it was not granted in time
   */
  async acquire(name: string, waitMs: number, left: AbortSignal): Promise<Hold> {
    if (this.#held.size + this.#waits.size >= LOCKS_MAX)
      throw new Refusal(429, 'too-many', `${LOCKS_MAX} locks are held or waited for, which is the most`);
    const wait = new AbortController();
    const leave = (): void => wait.abort();
    left.addEventListener('abort', leave, { once: true });
    this.#waits.add(wait);
    try {
      const hold = await this.#postern.lock(name).acquire({ waitMs, signal: wait.signal });
      this.#held.set(name, hold);
      hold.signal.addEventListener('abort', () => this.#forget(hold), { once: true });
      if (wait.signal.aborted) await this.release(name);
      wait.signal.throwIfAborted();
      return hold;
    } catch (error) {
      if (this.#over.aborted) throw unwell(this.#over);
      throw error;
    } finally {
      this.#waits.delete(wait);
      left.removeEventListener('abort', leave);
    }
  }

  /**
   * It may be repeated until it has succeeded: what is being released is not held, and still there.
   *
   * @throws Refusal if it is not held, or by another hold
   */
  async release(name: string, holdId?: string): Promise<void> {
    const hold = this.#over.aborted ? undefined : this.#held.get(name);
    if (hold === undefined || hold.signal.aborted || (holdId !== undefined && hold.holdId !== holdId))
      throw new Refusal(409, 'not-holder', `the lock "${name}" is not held here${holdId ? ` by ${holdId}` : ''}`);
    await hold.release();
    this.#forget(hold);
  }

  #forget(hold: Hold): void {
    if (this.#held.get(hold.name) === hold) this.#held.delete(hold.name);
  }
}

/** The program is not well, or the sidecar is about to end. */
export function unwell(over: AbortSignal | undefined): Refusal {
  const why = (over?.reason as Error | undefined)?.message ?? 'the program has not been found well yet';
  return new Refusal(503, 'unhealthy', `nothing is held for it: ${why}`);
}
