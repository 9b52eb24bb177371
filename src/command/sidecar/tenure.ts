/**
 * What goes with one lease, from when the program is well until it is not: the candidacy, the memberships, the locks.
 * One request gives all of it back, which is the end of the lease; a lease that is lost meanwhile is replaced.
 */
import { setMaxListeners } from 'node:events';
import { Postern, type Membership } from '../../client/index.js';
import type { Output } from '../output.js';
import { Candidacy, type CandidacyListener } from './candidacy.js';
import { Locks } from './locks.js';
import { persist, untilAborted } from '../persist.js';
import type { Settings } from './settings.js';

export interface TenureOptions {
  readonly settings: Settings;
  /** Aborts in the moment in which the program is known not to be well. */
  readonly well: AbortSignal;
  readonly output: Output;
  readonly listener: CandidacyListener;
}

export class Tenure {
  readonly candidacy: Candidacy | undefined;
  readonly locks: Locks;
  readonly #postern: Postern;
  readonly #options: TenureOptions;
  readonly #over = new AbortController();
  readonly #memberships = new Map<string, Membership>();

  constructor(options: TenureOptions) {
    const { settings, output, listener } = (this.#options = options);
    const { election } = settings;
    const over = this.#over.signal;
    setMaxListeners(0, over);
    this.#postern = new Postern(settings.client);
    this.locks = new Locks(this.#postern, over);
    if (election !== undefined)
      this.candidacy = new Candidacy({ postern: this.#postern, election, settings, over, output, listener });
  }

  /** Aborts in the moment in which it is over. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** How long the lease is certain if no heartbeat is answered any more; null while nothing is held under it, ms. */
  get leftMs(): number | null {
    const { latest } = this.candidacy ?? {};
    const all = [...this.locks.held, ...this.#memberships.values(), ...(latest ? [latest] : [])];
    const leftMs = Math.max(0, ...all.map((hold) => Math.floor(hold.leftMs)));
    return leftMs === 0 ? null : leftMs;
  }

  get groups(): { name: string; member: string | null; fencingToken: number | null }[] {
    return this.#options.settings.groups.map((name) => {
      const membership = this.#memberships.get(name);
      const joined = membership?.ok() === true && !this.over.aborted ? membership : undefined;
      return { name, member: joined?.member ?? null, fencingToken: joined?.fencingToken ?? null };
    });
  }

  /** Resolves when everything has been given back. @throws PosternError that refuses what it needs */
  async run(): Promise<void> {
    const { settings, well, output } = this.#options;
    const end = (): void => this.#over.abort(well.reason);
    well.addEventListener('abort', end, { once: true });
    if (well.aborted) end();
    const work = Promise.all([this.candidacy?.run(), ...settings.groups.map((name) => this.#belong(name))]);
    work.catch((error: unknown) => this.#over.abort(error));
    await untilAborted(this.over);
    output.tell('over', `giving everything back: ${(this.over.reason as Error).message}`);
    await this.candidacy?.steppedDown();
    await this.#postern.close();
    await work;
  }

  async #belong(name: string): Promise<void> {
    const { settings, output } = this.#options;
    const joining = { what: `joining the group "${name}"`, over: this.over, output };
    const group = this.#postern.group(name);
    for (;;) {
      const membership = await persist(joining, () => group.join({ value: settings.value }));
      if (membership === undefined) return;
      this.#memberships.set(name, membership);
      await untilAborted(membership.signal, this.over);
    }
  }
}
