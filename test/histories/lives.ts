/** What a history tells of the leases that were used on its object. */
import type { LeaseInput } from './client-lease.js';
import { timing } from '../support/timing.js';
import { leaseOf } from './holds-model.js';
import type { Operation } from './linearizable.js';

/** Half a tick: what a server of the ensemble may not have passed on. */
const TOUCH_LAG_MS = timing.tickMs / 2;
/** A session ends at a tick, and is seen to have ended a moment later. */
const LATE_MS = 2_000;

interface Life {
  readonly begin: number;
  readonly end: number;
  readonly ttlMs: number;
}

const FACTS: readonly string[] = ['lease-lives', 'lease-lost', 'lease-left', 'reserved'] satisfies LeaseInput['do'][];

export function isLeaseInput(input: { readonly do: string }): input is LeaseInput {
  return FACTS.includes(input.do);
}

export class LeaseLife {
  /** In the order in which its client was told. */
  readonly #lives: Life[] = [];
  /** The newest sign of life was asked for then. */
  #seen = -Infinity;
  /** And whatever else was asked with it was answered by then, or sent. */
  #used = -Infinity;
  #ttlMs = 0;
  /** When its client took it for lost, or sent the request to end it. */
  #over = Infinity;
  #left: { begin: number; end: number } | undefined;

  constructor(
    readonly name: string,
    readonly client: string,
  ) {}

  /**
   * @param touchLagMs a server of the ensemble may keep it to itself for so long that a lease was touched, and take it
   *   along when it dies: a heartbeat counts when a later one shows that this time is over
   */
  static of(
    operations: readonly Operation<{ readonly do: string; readonly by?: string }, unknown>[],
    touchLagMs = TOUCH_LAG_MS,
  ): Map<string, LeaseLife> {
    const leases = new Map<string, LeaseLife>();
    const sorted = [...operations].sort((a, b) => a.end - b.end);
    const newest = new Map<string, number>();
    for (const { input, begin } of sorted)
      if (isLeaseInput(input) && input.do === 'lease-lives')
        newest.set(input.lease, Math.max(begin, newest.get(input.lease) ?? 0));
    for (const { input, client, begin, end } of sorted) {
      if (!isLeaseInput(input)) continue;
      const lease = leases.get(input.lease) ?? new LeaseLife(input.lease, client);
      leases.set(input.lease, lease);
      if (input.do === 'reserved') {
        lease.#stands(input.until, end);
        continue;
      }
      if (input.do === 'lease-lives') {
        lease.#seen = Math.max(lease.#seen, begin);
        lease.#ttlMs = input.ttlMs;
      }
      if (input.do !== 'lease-lives') lease.#over = Math.min(lease.#over, begin);
      else if (input.created === true || (newest.get(input.lease) as number) >= end + touchLagMs || touchLagMs === 0)
        lease.#lives.push({ begin, end, ttlMs: input.ttlMs });
      if (input.do === 'lease-left') lease.#left = { begin, end };
    }
    for (const { input, begin, end } of sorted) {
      const lease = leases.get(isLeaseInput(input) ? input.lease : leaseOf(input.by ?? ''));
      if (lease !== undefined) lease.#used = Math.max(lease.#used, end === Infinity ? begin : end);
    }
    return leases;
  }

  #stands(until: number, told: number): void {
    this.#used = Math.max(this.#used, until);
    if (told === Infinity) return;
    this.#seen = Math.max(this.#seen, until);
    this.#lives.push({ begin: until, end: told, ttlMs: 0 });
  }

  /**
   * Until when its client may take it for alive, that was told something at `from`; not after `from` when it may not
   * even then.
   */
  believedFrom(from: number): number {
    let until = -Infinity;
    for (const { begin, end, ttlMs } of this.#lives) {
      if (end > from && end > until) break;
      until = Math.max(until, begin + ttlMs);
    }
    return Math.min(until, this.#over);
  }

  /** Whether its client asked to end it: then what it held was not lost. */
  get isLeft(): boolean {
    return this.#left !== undefined;
  }

  /** By when it has ended, if nothing was disturbed since. */
  get goneBy(): number {
    return Math.min(this.#left?.end ?? Infinity, this.#used + this.#ttlMs + LATE_MS);
  }

  /** When it can have ended: not before the last that is known of its life. */
  get ends(): { begin: number; end: number } {
    return { begin: this.#seen, end: this.#left?.end ?? Infinity };
  }
}
