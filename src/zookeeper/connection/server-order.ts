/**
 * The order in which a lease tries the servers of the ensemble, and which of them are tried last for now.
 *
 * The order follows from the lease's affinity and is the same in every replica (protocol C5, ADR 5): the first digit
 * names the preferred server, the next one picks among the rest. So the leases of a missing server spread over all the
 * others, not just to its neighbour.
 *
 * What one lease finds out serves all leases of the replica: a server that kept a request waiting is tried last for a
 * few seconds, so that only the first leases pay for it. Then one attach tests whether it is back, and the others avoid
 * it until it is.
 */
import type { Server } from '../connect-string.js';
import { SessionTimeoutError } from '../errors.js';

const SILENT_FOR_MS = 5_000;
/**
 * A server with other bounds keeps them until somebody reconfigures it; and each attempt there shortens a lease for a
 * moment.
 */
const UNFIT_FOR_MS = 60_000;

interface Aside {
  why: Error;
  /** On the monotonic clock. */
  until: number;
}

export interface ServerObserver {
  /** Called when a server is set aside, and not again until it was found to be back. */
  setAside(server: string, why: Error): void;
  back(server: string): void;
}

export class ServerOrder {
  readonly #servers: readonly Server[];
  readonly #observer: ServerObserver;
  readonly #aside = new Map<Server, Aside>();

  /** @param servers in an order that is the same in every replica */
  constructor(servers: readonly Server[], observer: ServerObserver) {
    this.#servers = servers;
    this.#observer = observer;
  }

  /** @param affinity any integer; equal ones prefer equal servers */
  of(affinity: number): Server[] {
    const left = [...this.#servers];
    const ordered: Server[] = [];
    for (let rest = affinity; left.length > 0;) {
      const count = left.length;
      ordered.push(...left.splice(((rest % count) + count) % count, 1));
      rest = Math.floor(rest / count);
    }
    return this.#aside.size === 0 ? ordered : this.#withoutAside(ordered);
  }

  /** A server kept a request or a handshake waiting too long, or has other session timeouts than the rest. */
  setAside(server: Server, why: Error): void {
    const first = !this.#aside.has(server);
    const forMs = why instanceof SessionTimeoutError ? UNFIT_FOR_MS : SILENT_FOR_MS;
    this.#aside.set(server, { why, until: performance.now() + forMs });
    if (first) this.#observer.setAside(nameOf(server), why);
  }

  /** A server took a session. */
  answered(server: Server): void {
    if (this.#aside.delete(server)) this.#observer.back(nameOf(server));
  }

  #withoutAside(ordered: readonly Server[]): Server[] {
    const now = performance.now();
    const first: Server[] = [];
    const last: Server[] = [];
    for (const server of ordered) {
      const aside = this.#aside.get(server);
      if (aside === undefined) first.push(server);
      else if (aside.until > now || first.length > 0) last.push(server);
      else {
        // Until this attempt is settled, others avoid the server.
        aside.until = now + SILENT_FOR_MS;
        first.push(server);
      }
    }
    return [...first, ...last];
  }
}

export function nameOf({ host, port }: Server): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
