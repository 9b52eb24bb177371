/**
 * What answers have told so far, by the name of the member it stood in: tokens, ids and ETags that exist, so that the
 * requests which follow reach what lies behind the first check.
 */
import type { Chance } from './chance.js';

/** So many of each; older ones are forgotten, as most of what they name has ended. */
const KEPT = 40;

/** Members under another name than the one under which requests take them. */
const ALSO: Record<string, string[]> = {
  nextPageToken: ['pageToken'],
  transactionId: ['id'],
  leaseToken: ['leaseTokens'],
  claimId: ['claimIds'],
  etag: ['ifMatch'],
};
const WORTH_KEEPING = new Set([
  'candidateId',
  'claimId',
  'etag',
  'fencingToken',
  'holdId',
  'leaseId',
  'nextPageToken',
  'transactionId',
  'version',
]);

export interface KnownLease {
  leaseToken: string;
  leaseId: string;
  /** Whose it is, and where it counts. */
  principal: string;
  namespace: string;
}

export class Memory {
  readonly #values = new Map<string, unknown[]>();
  readonly #leases: KnownLease[] = [];
  /** Every lease token there ever was: none of them may stand in a log. */
  readonly leaseTokens = new Set<string>();

  learn(body: unknown, etag: string | undefined, principal: string, namespace: string): void {
    if (etag !== undefined) this.#keep('etag', etag);
    this.#walk(body, principal, namespace);
  }

  recall(member: string, chance: Chance): unknown {
    const known = this.#values.get(member);
    return known === undefined ? undefined : chance.pick(known);
  }

  lease(chance: Chance): KnownLease | undefined {
    return this.#leases.length === 0 ? undefined : chance.pick(this.#leases);
  }

  #walk(value: unknown, principal: string, namespace: string): void {
    if (typeof value !== 'object' || value === null) return;
    if (Array.isArray(value)) {
      for (const one of value) this.#walk(one, principal, namespace);
      return;
    }
    const { leaseToken, leaseId } = value as Record<string, unknown>;
    if (typeof leaseToken === 'string' && typeof leaseId === 'string' && !this.leaseTokens.has(leaseToken)) {
      this.leaseTokens.add(leaseToken);
      push(this.#leases, { leaseToken, leaseId, principal, namespace });
    }
    for (const [member, one] of Object.entries(value)) {
      if (WORTH_KEEPING.has(member) && one !== null) this.#keep(member, one);
      this.#walk(one, principal, namespace);
    }
  }

  #keep(member: string, value: unknown): void {
    for (const name of [member, ...(ALSO[member] ?? [])]) {
      let known = this.#values.get(name);
      if (known === undefined) this.#values.set(name, (known = []));
      push(known, value);
    }
  }
}

function push<T>(list: T[], value: T): void {
  list.push(value);
  if (list.length > KEPT) list.shift();
}
