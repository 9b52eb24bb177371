/**
 * As whom the page sends its requests: a lease that it keeps alive, and an API key if the gateway asks for one. The key
 * is in memory only. The lease is also known to the other pages of this tab, which would otherwise each need their own.
 */

export interface Lease {
  readonly leaseId: string;
  readonly leaseToken: string;
  readonly ttlMs: number;
}

export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly body?: string | undefined;
  readonly isRaw?: boolean;
  /** Whether the token of the lease is sent. */
  readonly forLease?: boolean;
  readonly signal?: AbortSignal;
}

const KEPT_AS = 'postern-docs-lease';
/** One may be lost. */
const HEARTBEATS_PER_TTL = 3;
const LEASE = { ttlMs: 30_000, label: 'docs' };

export class Session {
  /** Called after each change. */
  readonly listeners: (() => void)[] = [];
  #lease: Lease | undefined = keptLease();
  #key: string | undefined;
  #asksForKey = false;
  #beat: ReturnType<typeof setTimeout> | undefined;

  get lease(): Lease | undefined {
    return this.#lease;
  }

  get hasKey(): boolean {
    return this.#key !== undefined;
  }

  /** Whether the gateway has refused a request for its credential. */
  get asksForKey(): boolean {
    return this.#asksForKey;
  }

  /** Carries on with the lease of the page before this one. */
  resume(): void {
    if (this.#lease !== undefined) void this.#heartbeat(this.#lease);
  }

  setKey(key: string): void {
    this.#key = key === '' ? undefined : key;
    this.#asksForKey = this.#key === undefined;
    this.#changed();
    this.resume();
  }

  /** @throws TypeError if there is no answer */
  async send({ method, path, body, isRaw = false, forLease = false, signal }: Sent): Promise<Response> {
    const response = await fetch(path, {
      method,
      headers: {
        ...(body !== undefined && { 'Content-Type': isRaw ? 'application/octet-stream' : 'application/json' }),
        ...(forLease && this.#lease !== undefined && { 'Lease-Token': this.#lease.leaseToken }),
        ...(this.#key !== undefined && { Authorization: `Bearer ${this.#key}` }),
      },
      cache: 'no-store',
      credentials: 'omit',
      ...(body !== undefined && { body }),
      ...(signal !== undefined && { signal }),
    });
    if (response.status === 401) {
      this.#asksForKey = true;
      this.#changed();
    }
    return response;
  }

  /** @returns what went wrong, in words */
  async takeLease(): Promise<string | undefined> {
    try {
      const response = await this.send({ method: 'POST', path: '/v1/leases', body: JSON.stringify(LEASE) });
      const answer = (await response.json()) as Lease & { detail?: string };
      if (!response.ok) return answer.detail ?? `The answer was ${response.status}.`;
      this.adopt(answer);
      return undefined;
    } catch (error) {
      return String(error);
    }
  }

  async endLease(): Promise<void> {
    await this.send({ method: 'DELETE', path: '/v1/leases/self', forLease: true }).catch(() => undefined);
    this.forget();
  }

  adopt({ leaseId, leaseToken, ttlMs }: Lease): void {
    this.#lease = { leaseId, leaseToken, ttlMs };
    keep(this.#lease);
    this.#changed();
    this.#schedule(this.#lease);
  }

  forget(): void {
    clearTimeout(this.#beat);
    this.#lease = undefined;
    keep(undefined);
    this.#changed();
  }

  #schedule(lease: Lease): void {
    clearTimeout(this.#beat);
    this.#beat = setTimeout(() => void this.#heartbeat(lease), lease.ttlMs / HEARTBEATS_PER_TTL);
  }

  /** A lease that nobody can answer for is asked about again; one that has ended, or is another's, is forgotten. */
  async #heartbeat(lease: Lease): Promise<void> {
    const answer = this.send({ method: 'POST', path: '/v1/leases/self/heartbeat', forLease: true });
    const status = (await answer.catch(() => undefined))?.status;
    if (this.#lease !== lease) return;
    if (status === 410 || status === 403 || status === 400) this.forget();
    else if (status !== 401) this.#schedule(lease);
  }

  #changed(): void {
    for (const listener of this.listeners) listener();
  }
}

/** Where site data is blocked there is no storage: then each page needs a lease of its own. */
function keptLease(): Lease | undefined {
  try {
    const kept = sessionStorage.getItem(KEPT_AS);
    return kept === null ? undefined : (JSON.parse(kept) as Lease);
  } catch {
    return undefined;
  }
}

function keep(lease: Lease | undefined): void {
  try {
    if (lease === undefined) sessionStorage.removeItem(KEPT_AS);
    else sessionStorage.setItem(KEPT_AS, JSON.stringify(lease));
  } catch {
    // As above.
  }
}
