/** What the sidecar knows and has, in this moment. */
import type { Schemas } from '../../client/index.js';
import type { Health } from './health.js';
import type { Settings } from './settings.js';
import type { Tenure } from './tenure.js';

type Leader = Pick<Schemas['Leader'], 'value' | 'label' | 'fencingToken'>;

/** The body of `/leader`. */
export interface Leadership {
  readonly election: string | null;
  /** Whether it is this program. */
  readonly leads: boolean;
  /** How long that is certain if no heartbeat is answered any more, in milliseconds; null if it does not lead. */
  readonly leftMs: number | null;
  /** The latest that is known of; null if nobody is known to lead. */
  readonly leader: Leader | null;
}

export class Sidecar {
  /** While the program is well, and until what it had then has been given back. */
  tenure: Tenure | undefined;
  /** What has to happen once before it is ready. */
  readonly pending = new Set<string>();
  stopping = false;
  #seen: Schemas['Leader'] | undefined;
  /** The latest term of this program that is over: what shows it, or an earlier one, is out of date. */
  #past = 0;

  constructor(
    readonly settings: Settings,
    readonly health: Health,
  ) {}

  /** Whether the program is well, and has what it can have. */
  get well(): boolean {
    return this.tenure !== undefined && !this.tenure.over.aborted;
  }

  sees(leader: Schemas['Leader'] | null): void {
    this.#seen = leader ?? undefined;
    if (leader !== null) this.tenure?.candidacy?.sees(leader);
  }

  /** A term of this program is over. */
  ended(fencingToken: number): void {
    this.#past = Math.max(this.#past, fencingToken);
  }

  leadership(): Leadership {
    const { election = null, value = null, client } = this.settings;
    const term = this.tenure?.candidacy?.term;
    if (term !== undefined) {
      const leader = { value, label: client.label, fencingToken: term.fencingToken };
      return { election, leads: true, leftMs: Math.floor(term.leftMs), leader };
    }
    return { election, leads: false, leftMs: null, leader: this.#other() };
  }

  notReady(): string[] {
    return [...(this.stopping ? ['it is told to end'] : []), ...this.pending];
  }

  /** The body of `/me`. */
  describe(): Readonly<Record<string, unknown>> {
    const { settings, tenure, health } = this;
    const holds = this.well ? (tenure?.locks.held ?? []) : [];
    const { label, ttlMs, namespace = null } = settings.client;
    return {
      label,
      namespace,
      health: health.describe(),
      lease: { ttlMs, leftMs: tenure?.leftMs ?? null },
      election: tenure?.candidacy?.describe() ?? null,
      groups: tenure?.groups ?? [],
      holds: holds.map(({ kind, name, holdId, fencingToken, leftMs }) => ({
        kind,
        name,
        holdId,
        fencingToken,
        leftMs: Math.floor(leftMs),
      })),
      notReady: this.notReady(),
    };
  }

  #other(): Leader | null {
    if (this.#seen === undefined || this.#seen.fencingToken <= this.#past) return null;
    const { value, label, fencingToken } = this.#seen;
    return { value, label, fencingToken };
  }
}
