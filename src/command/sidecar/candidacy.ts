/**
 * Standing for election, again and again, for as long as the program is well.
 *
 *   standing ──elected──▶ taking-over ──hook succeeds──▶ leading
 *      ▲                      │ hook fails, term over       │ term over, program not well
 *      └──────resigned────── stepping-down ◀────────────────┘
 *
 * Guarantee: `term` is undefined before the lead is given up, and before another one can be elected: it is judged by
 * the clock and by the health of the program whenever somebody asks, and the lead is given up only after that.
 */
import type { Postern, Schemas, Term } from '../../client/index.js';
import { pause } from '../../client/lease/clock.js';
import type { Output } from '../output.js';
import { runHook, type Hook, type HookEvent } from './hook.js';
import { persist, untilAborted } from '../persist.js';
import type { Settings } from './settings.js';

/** Before it stands again when its hook has failed, in milliseconds: others come first. */
const HOOK_FAILED_MS = 5_000;

export interface CandidacyListener {
  /** It leads from now on. */
  leads(): void;
  /** It does not lead any more, or will not take over; it has not resigned yet. */
  ended(fencingToken: number): void;
}

export interface CandidacyOptions {
  readonly postern: Postern;
  readonly election: string;
  readonly settings: Pick<Settings, 'value' | 'preference' | 'hooks' | 'hookTimeoutMs'>;
  /** Aborts in the moment in which the program is known not to be well. */
  readonly over: AbortSignal;
  readonly output: Output;
  readonly listener: CandidacyListener;
}

export class Candidacy {
  readonly #options: CandidacyOptions;
  #state: 'standing' | 'taking-over' | 'leading' | 'stepping-down' = 'standing';
  #term: Term | undefined;
  #displaced = new AbortController();
  #lead: Promise<boolean> | undefined;

  constructor(options: CandidacyOptions) {
    this.#options = options;
  }

  /** The present term, if the program leads in this moment. */
  get term(): Term | undefined {
    return this.#state === 'leading' && !this.#over() ? this.#term : undefined;
  }

  /** The latest grant to this candidate, whether it still stands or not. */
  get latest(): Term | undefined {
    return this.#term;
  }

  describe(): { name: string; state: string; fencingToken: number | null; leftMs: number | null } {
    const term = this.#state === 'standing' ? undefined : this.#term;
    const state = this.#state === 'leading' && this.term === undefined ? 'stepping-down' : this.#state;
    const leftMs = term === undefined ? null : Math.floor(term.leftMs);
    return { name: this.#options.election, state, fencingToken: term?.fencingToken ?? null, leftMs };
  }

  /** What is known of the election shows a later leader: nobody leads twice, so this one is over. */
  sees({ fencingToken }: Pick<Schemas['Leader'], 'fencingToken'>): void {
    if (this.#term !== undefined && fencingToken > this.#term.fencingToken)
      this.#displaced.abort(new Error('another one has been elected'));
  }

  /** Until `over` aborts; the lease has to be ended then. @throws PosternError if it may not stand */
  async run(): Promise<void> {
    const { postern, election, settings, over, output } = this.#options;
    const { value, preference } = settings;
    const shown = { ...(value !== undefined && { value }), ...(preference !== undefined && { preference }) };
    const standing = { what: `standing for election "${election}"`, over, output };
    for (;;) {
      this.#state = 'standing';
      const campaign = (): Promise<Term> => postern.election(election).campaign({ ...shown, signal: over });
      const term = await persist(standing, campaign);
      if (term === undefined) return;
      this.#lead = this.#serve(term);
      const tookOver = await this.#lead;
      if (over.aborted) return;
      await term.resign().catch((error: Error) => output.tell('not-resigned', error.message));
      if (!tookOver) await pause(HOOK_FAILED_MS, over);
    }
  }

  /** Resolves when the hook of a term that is over has run: from then on the lease may end. */
  async steppedDown(): Promise<void> {
    await this.#lead;
  }

  /** @returns whether it took over */
  async #serve(term: Term): Promise<boolean> {
    const { over, output, listener, settings } = this.#options;
    const { fencingToken } = term;
    this.#displaced = new AbortController();
    this.#term = term;
    this.#state = 'taking-over';
    output.tell('elected', `elected, with fencing token ${fencingToken}`, this.#facts(term));
    const failure = await this.#hook(settings.hooks.elected, { event: 'elected', ...this.#facts(term) });
    if (failure === undefined && !this.#over()) {
      this.#state = 'leading';
      listener.leads();
      // Only others want to know.
      void term.acknowledge().catch(() => undefined);
      await untilAborted(term.signal, over, this.#displaced.signal);
    }
    this.#state = 'stepping-down';
    listener.ended(fencingToken);
    const reason = failure ?? this.#reason(term);
    output.tell('lost', `no longer leads (fencing token ${fencingToken}): ${reason}`, { ...this.#facts(term), reason });
    await this.#hook(settings.hooks.lost, { event: 'lost', ...this.#facts(term), reason });
    return failure === undefined;
  }

  #over(): boolean {
    const { over } = this.#options;
    return over.aborted || this.#displaced.signal.aborted || this.#term?.ok() !== true;
  }

  #reason(term: Term): string {
    const { over } = this.#options;
    const signal = [over, this.#displaced.signal, term.signal].find(({ aborted }) => aborted);
    return (signal?.reason as Error | undefined)?.message ?? 'the term is over';
  }

  #facts({ fencingToken, holdId }: Term): Pick<HookEvent, 'election' | 'fencingToken' | 'holdId'> {
    return { election: this.#options.election, fencingToken, holdId };
  }

  /** One for a term that begins is stopped when that is over. @returns why it has failed */
  async #hook(hook: Hook | undefined, event: HookEvent): Promise<string | undefined> {
    if (hook === undefined) return undefined;
    const { settings, output, over } = this.#options;
    const { hookTimeoutMs: timeoutMs } = settings;
    const stop = new AbortController();
    const term = this.#term as Term;
    if (event.event === 'elected')
      void untilAborted(term.signal, over, this.#displaced.signal).then(() => stop.abort());
    try {
      await runHook(hook, event, { timeoutMs, signal: stop.signal });
      return undefined;
    } catch (error) {
      const why = `the hook has failed: ${(error as Error).message}`;
      output.tell('hook-failed', `${event.event}: ${why}`, this.#facts(term));
      return why;
    }
  }
}
