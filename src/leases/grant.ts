/**
 * Granting leases.
 *
 * Step by step (protocol C14, T1). A crash after any of them leaves at most a session that nobody heartbeats:
 *  1. with a requestId (`leases.ts`): look for the lease of an earlier attempt, and answer with that one;
 *  2. open a session with the wanted timeout, at the first server that grants it; if none does, refuse;
 *  3. in one transaction create the lease node and the request node, both ephemeral, both with the sealed token, and
 *     check that this process is registered (`fencing-floor.ts`); a local session is refused here (-120), before
 *     anybody relies on it;
 *  4. if the request node exists, another attempt was faster: close the session and answer with that one's lease.
 */
import { randomBytes } from 'node:crypto';
import { PosternError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, ZooKeeperError } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { MultiOperation } from '../zookeeper/operations.js';
import { parentOf } from '../zookeeper/paths.js';
import type { AttachedSessions } from './attached-sessions.js';
import type { FencingFloor } from './fencing-floor.js';
import type { LeaseKeys } from './keys.js';
import type { Layout } from './layout.js';
import { Lease, affinityOf } from './lease.js';
import type { LeaseRecord } from './records.js';
import type { SessionBounds } from './session-bounds.js';

const SECRET_BYTES = 16;

export interface CreateLease {
  principal: string;
  namespace: string;
  ttlMs?: number | undefined;
  /** Without a TTL: what it is, as near as the ensemble allows. */
  usualTtlMs?: number | undefined;
  label?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** A repeated request with the same id is answered with the same lease while that lives. */
  requestId?: string | undefined;
}

export interface GrantedLease {
  lease: Lease;
  leaseToken: string;
  /** Epoch ms; counted from when the request was sent, so never too late. */
  expiresAt: number;
  /** Made by an earlier attempt of this request. */
  found: boolean;
}

/** One attempt at a request for a lease. */
interface WantedLease {
  readonly request: CreateLease;
  /** The node by which a repeated request finds the lease; undefined if the request cannot be repeated. */
  readonly requestPath: string | undefined;
  readonly deadline: number;
}

export interface GrantingOptions {
  control: ControlSession;
  sessions: AttachedSessions;
  keys: LeaseKeys;
  bounds: SessionBounds;
  layout: Layout;
  floor: Pick<FencingFloor, 'registration'>;
  clock: Clock;
  metrics: Metrics;
  maxLeasesPerPrincipal: number;
}

export class Granting {
  /** Grants in progress, by principal: they have no session in the cache yet. */
  readonly #granting = new Map<string, number>();
  readonly #options: GrantingOptions;

  constructor(options: GrantingOptions) {
    this.#options = options;
  }

  /**
   * Steps 2 to 4.
   * @returns undefined if another attempt at the same request was faster
   * @throws PosternError `too-many-leases`
   */
  grant(wanted: WantedLease): Promise<GrantedLease | undefined> {
    return this.#admitted(wanted.request.principal, () => this.#grant(wanted));
  }

  /**
   * Runs a grant if the principal may have one more lease. It counts the leases to which this replica is connected, and
   * the replica asked last has a lease's connection: those that were made here and are used elsewhere do not count.
   * @throws PosternError `too-many-leases`
   */
  async #admitted<T>(principal: string, grant: () => Promise<T>): Promise<T> {
    const { maxLeasesPerPrincipal, metrics } = this.#options;
    const granting = this.#granting.get(principal) ?? 0;
    if (this.#options.sessions.sizeOf(principal) + granting >= maxLeasesPerPrincipal) {
      metrics.limitRefusalsTotal.inc({ limit: 'leases' });
      throw new PosternError(
        'too-many-leases',
        `"${principal}" has ${maxLeasesPerPrincipal} leases at this replica; end one, or let one expire.`,
        { members: { maxLeasesPerPrincipal } },
      );
    }
    this.#granting.set(principal, granting + 1);
    try {
      return await grant();
    } finally {
      const left = (this.#granting.get(principal) ?? 1) - 1;
      if (left === 0) this.#granting.delete(principal);
      else this.#granting.set(principal, left);
    }
  }

  async #grant(wanted: WantedLease): Promise<GrantedLease | undefined> {
    const { bounds, keys, clock, sessions } = this.#options;
    const { request, deadline } = wanted;
    const ring = await keys.ring(deadline);
    const secret = randomBytes(SECRET_BYTES);
    const session = await bounds.open(request.ttlMs, affinityOf(secret), deadline, request.usualTtlMs);
    try {
      const { id, password } = session.identity;
      const issuedAt = clock.now();
      const grant = {
        sessionId: id,
        sessionPassword: password,
        secret,
        ttlMs: session.timeoutMs,
        issuedAt,
        namespace: request.namespace,
        principal: request.principal,
        label: request.label ?? '',
      };
      const lease = new Lease(grant);
      const leaseToken = ring.seal(grant);
      if (!(await this.#register(session, { lease, leaseToken }, wanted))) {
        await session.close(deadline);
        return undefined;
      }
      sessions.adopt(lease, session);
      return { lease, leaseToken, expiresAt: expiresAtOf(session, clock), found: false };
    } catch (error) {
      // Nobody has the token: end the session now rather than at its timeout. If that fails too, it lapses.
      if (!session.ended) await session.close(performance.now() + 1_000).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Writes the nodes by which the lease is found.
   * @returns false if the request node belongs to another lease
   */
  async #register(
    session: LeaseSession,
    { lease, leaseToken }: Pick<GrantedLease, 'lease' | 'leaseToken'>,
    { request, requestPath, deadline }: WantedLease,
  ): Promise<boolean> {
    const record: LeaseRecord = {
      leaseId: lease.leaseId,
      principal: lease.principal,
      label: lease.label,
      metadata: request.metadata ?? {},
      ttlMs: lease.ttlMs,
      createdAt: lease.grant.issuedAt,
      token: leaseToken,
    };
    const { control, layout, floor } = this.#options;
    const leasePath = layout.lease(lease.namespace, lease.leaseId);
    const nodes: MultiOperation[] = [
      { type: 'create', path: leasePath, data: Buffer.from(JSON.stringify(record)), mode: 'ephemeral' },
    ];
    if (requestPath !== undefined)
      nodes.push({ type: 'create', path: requestPath, data: Buffer.from(leaseToken), mode: 'ephemeral' });
    for (;;) {
      const { registration } = floor;
      try {
        await session.multi([...nodes, { type: 'check', path: registration }], deadline);
        return true;
      } catch (error) {
        if (error instanceof ZooKeeperError && error.failedIndex === nodes.length) {
          await this.#registeredAgain(registration, error, deadline);
          continue;
        }
        if (isReason(error, 'NODE_EXISTS')) return false;
        if (isReason(error, 'EPHEMERAL_ON_LOCAL_SESSION')) {
          throw new PosternError(
            'zookeeper-error',
            'The ensemble gives out local sessions without upgrading them; leases need localSessionsUpgradingEnabled or no local sessions.',
            { cause: error },
          );
        }
        if (!isReason(error, 'NO_NODE')) throw error;
        for (const node of nodes) await control.ensurePath(parentOf(node.path), deadline);
      }
    }
  }

  /**
   * A lease is made only by a process that is registered (`fencing-floor.ts`): its own session had ended, and another
   * one may have been registered since.
   */
  async #registeredAgain(before: string, cause: unknown, deadline: number): Promise<void> {
    const { control, floor } = this.#options;
    await control.whenConnected(deadline);
    if (floor.registration === before)
      throw new PosternError(
        'zookeeper-unavailable',
        "The replica's own session in ZooKeeper has ended; it opens another.",
        {
          cause,
        },
      );
  }
}

/** The earliest possible end of a session's lease, from the answers on it so far; epoch ms. */
export function expiresAtOf(session: LeaseSession, clock: Clock): number {
  return clock.now() - (performance.now() - session.touchedAt) + session.timeoutMs;
}
