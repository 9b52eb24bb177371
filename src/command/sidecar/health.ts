/**
 * Whether the program is well, by what it answers over HTTP.
 *
 *   unwell ──it answers 200 to 399──▶ well ──nobody listens, or several checks in a row fail──▶ unwell
 *
 * Connections are kept from one check to the next: the kernel closes them when the program ends, and the next check
 * comes at once.
 */
import { Agent } from 'node:http';
import { now, pause } from '../../client/lease/clock.js';
import { ask } from './ask.js';
import type { HealthSettings } from './settings.js';

/** A program that closes every connection, though it says that it keeps them, is checked no more often, ms. */
const SOONER_MS = 100;
/** However seldom it is checked: one that is not well yet is checked again after this, ms. */
const NOT_YET_MS = 1_000;
/** After a check that failed there may be no connection whose end would tell that the program has ended, ms. */
const AFTER_FAILURE_MS = 10_000;

/** What a check has found. */
interface Finding {
  readonly why: string;
  readonly well: boolean;
  /** Nobody listens there: the program has ended, or has not begun. */
  readonly gone?: boolean;
}

export class Health {
  readonly #settings: HealthSettings | undefined;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  #spell: AbortController | undefined;
  #why = 'it has not answered yet';
  #failures = 0;
  #checks = 0;
  /** Ends the pause before the next check. */
  #next = new AbortController();
  #wake = (): void => undefined;

  constructor(settings: HealthSettings | undefined) {
    this.#settings = settings;
  }

  /** @returns whether it is well, and what the last check found */
  describe(): { healthy: boolean; lastCheck: string; checks: number; failuresInARow: number } {
    const healthy = this.#spell !== undefined;
    return { healthy, lastCheck: this.#why, checks: this.#checks, failuresInARow: this.#failures };
  }

  /**
   * The times in which it is well, each as a signal that aborts in the moment in which that is known to be over.
   *
   * @param over no check begins any more, and the present spell is over
   */
  async *spells(over: AbortSignal): AsyncGenerator<AbortSignal, void> {
    const end = (): void => {
      this.#end((over.reason as Error).message);
      this.#next.abort();
      this.#wake();
    };
    over.addEventListener('abort', end, { once: true });
    const checking = this.#settings === undefined ? this.#neverJudged() : this.#check(this.#settings, over);
    try {
      while (!over.aborted) {
        if (this.#spell !== undefined && !this.#spell.signal.aborted) yield this.#spell.signal;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      over.removeEventListener('abort', end);
      await checking;
      this.#agent.destroy();
    }
  }

  async #neverJudged(): Promise<void> {
    this.#judge({ well: true, why: 'its health is not checked' }, 1);
  }

  async #check(settings: HealthSettings, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const startedAt = now();
      this.#next = new AbortController();
      const finding = await this.#look(settings, over);
      if (over.aborted) return;
      this.#judge(finding, settings.failures);
      const soonMs = this.#spell === undefined ? NOT_YET_MS : finding.well ? Infinity : AFTER_FAILURE_MS;
      await pause(startedAt + Math.min(settings.intervalMs, soonMs) - now(), this.#next.signal);
      if (this.#next.signal.aborted) await pause(startedAt + SOONER_MS - now(), over);
    }
  }

  async #look({ url, timeoutMs }: HealthSettings, signal: AbortSignal): Promise<Finding> {
    try {
      const onClosed = this.#closed;
      const status = await ask({ url, method: 'GET', timeoutMs, signal, agent: this.#agent, onClosed });
      return { well: status >= 200 && status <= 399, why: `answered ${status}` };
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException;
      return { well: false, why: message, gone: code === 'ECONNREFUSED' };
    }
  }

  readonly #closed = (): void => this.#next.abort();

  #judge({ well, why, gone = false }: Finding, failures: number): void {
    this.#checks += 1;
    this.#why = why;
    this.#failures = well ? 0 : this.#failures + 1;
    if (well && this.#spell === undefined) {
      this.#spell = new AbortController();
      this.#wake();
    } else if (!well && (gone || this.#failures >= failures)) this.#end(`the program is not well: ${why}`);
  }

  #end(why: string): void {
    const spell = this.#spell;
    this.#spell = undefined;
    spell?.abort(new Error(why));
  }
}
