/**
 * The lease of a client: granted when it is first needed, and granted anew when it is needed after the last one ended.
 * There is at most one at a time.
 */
import { randomUUID } from 'node:crypto';
import { now, pause } from './clock.js';
import type { Schemas } from '../contract.js';
import { notOfGateway, PosternError } from '../errors.js';
import type { Gateways } from '../gateways/gateways.js';
import { Lease } from './lease.js';
import type { Settings } from '../options.js';

/** The end of a lease is worth a little time: without it, its holds stay until its TTL is over. */
const CLOSE_MS = 2_000;
/** A lease was granted so late that it counts as ended: before another one is asked for, in milliseconds. */
const AGAIN_MS = 1_000;

export class LeaseKeeper {
  readonly #gateways: Gateways;
  readonly #settings: Settings;
  readonly #closed = new AbortController();
  #lease: Promise<Lease> | undefined;

  constructor(gateways: Gateways, settings: Settings) {
    this.#gateways = gateways;
    this.#settings = settings;
  }

  /** Aborts with `close`. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /**
   * @returns a lease that is alive
   * @throws PosternError if none is granted
   */
  async lease(): Promise<Lease> {
    for (;;) {
      this.closed.throwIfAborted();
      const granting = (this.#lease ??= this.#grant());
      const forget = (): void => void (this.#lease === granting && (this.#lease = undefined));
      const lease = await granting.catch((error: unknown) => {
        forget();
        throw error;
      });
      if (lease.judge()) return lease;
      forget();
    }
  }

  /** Everything held is lost, then the lease ends. After that no lease is granted any more. */
  async close(): Promise<void> {
    if (this.closed.aborted) return;
    this.#closed.abort(new PosternError('this client is closed', { code: 'closed' }));
    const lease = await this.#lease?.catch(() => undefined);
    if (lease === undefined) return;
    const { token } = lease;
    lease.end('closed', 'this client is closed');
    // Answered or not: there is nothing that the caller could do about it, and the TTL does the same.
    await this.#gateways
      .call('DELETE /v1/leases/self', {}, { leaseToken: token, patienceMs: CLOSE_MS })
      .catch(() => {});
  }

  async #grant(): Promise<Lease> {
    const { ttlMs, label, alive, patienceMs } = this.#settings;
    if (!alive()) throw new PosternError('alive() is false: no lease is taken', { code: 'not-alive', retryable: true });
    const patientUntil = now() + patienceMs;
    for (;;) {
      const body = { ttlMs, ...(label !== undefined && { label }), requestId: randomUUID() };
      const sentAt = now();
      const answer = await this.#gateways.call('POST /v1/leases', { body }, { signals: [this.closed] });
      if (!isGrant(answer.body)) throw notOfGateway(answer.status);
      const lease = new Lease(answer.body, sentAt, this.#gateways, this.#settings);
      if (lease.judge()) return lease;
      const pauseMs = Math.random() * AGAIN_MS;
      if (now() + pauseMs > patientUntil)
        throw new PosternError('the lease was granted too late', { code: 'lease-expired', retryable: true });
      await pause(pauseMs, this.closed);
    }
  }
}

/** Without a TTL it would have no deadline. */
function isGrant(body: Partial<Schemas['GrantedLease']> | undefined): boolean {
  return typeof body?.leaseToken === 'string' && typeof body.ttlMs === 'number';
}
