/**
 * Leases: grant, heartbeat, show, end.
 *
 * Guarantee: a lease lives exactly as long as it is heartbeated. It is a ZooKeeper session whose timeout is the TTL, so
 * ZooKeeper ends it, never a timer here, and no earlier than the TTL after the last heartbeat that was answered.
 * Not guaranteed: that it ends *exactly* then. ZooKeeper rounds up to its next tick, and gives every session a full
 * timeout again when the ensemble elects a new leader.
 *
 * A heartbeat is a `sync` on the lease's session: it goes to the leader, which refuses it once the session has ended. A ping
 * would be answered by a follower that does not know yet (protocol C5).
 *
 * Granting, step by step (protocol C14, T1). A crash after any of them leaves at most a session that nobody heartbeats:
 *  1. with a requestId: look for the lease that an earlier try made, and answer that one;
 *  2. open a session with the wanted timeout; when the ensemble grants another, close it and refuse;
 *  3. in one transaction create the lease node and the request node, both ephemeral, both with the sealed token; a local
 *     session is refused here (-120), before anybody relies on it;
 *  4. when the request node exists, another try was faster: close the session and answer that one's lease.
 */
import { randomBytes } from 'node:crypto';
import { InvalidError, LeaseExpiredError, PosternError, isPosternError } from '../errors.js';
import type { Metrics } from '../metrics/metrics.js';
import type { Clock } from '../time.js';
import { fullJitter, pause } from '../time.js';
import { pageOfNames, type Page } from '../page.js';
import type { ControlSession } from '../zookeeper/control-session.js';
import { isReason, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import type { MultiOperation } from '../zookeeper/operations.js';
import { parentOf } from '../zookeeper/paths.js';
import type { AttachedSessions } from './attached-sessions.js';
import type { LeaseKeys } from './keys.js';
import { BUCKET_DIGITS, type Layout } from './layout.js';
import { Lease, affinityOf } from './lease.js';
import { LruMap } from './lru-map.js';
import type { SessionBounds } from './session-bounds.js';

export const DEFAULT_TTL_MS = 30_000;
const SECRET_BYTES = 16;
/** Opened tokens kept, so that a heartbeat does not decrypt each time. */
const OPENED_MAX = 50_000;

export interface Caller {
  principal: string;
  namespace: string | undefined;
}

export interface CreateLease {
  principal: string;
  namespace: string;
  ttlMs?: number | undefined;
  label?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  /** A repeated request with the same one answers the same lease while it lives. */
  requestId?: string | undefined;
}

export interface GrantedLease {
  lease: Lease;
  leaseToken: string;
  /** Epoch ms; counted from when the request was sent on, so never later than the truth. */
  expiresAt: number;
}

export interface Heartbeat {
  lease: Lease;
  expiresAt: number;
  /** Sealed anew, when the old token was sealed under a key that is being phased out. */
  leaseToken: string | undefined;
}

/** What the lease's own znode tells; JSON. */
export interface LeaseRecord {
  leaseId: string;
  principal: string;
  label: string;
  metadata: Record<string, unknown>;
  ttlMs: number;
  /** Epoch ms. */
  createdAt: number;
  /** The sealed token, so that an administrator can end a lease by its id. */
  token: string;
}

export interface LeasesOptions {
  control: ControlSession;
  sessions: AttachedSessions;
  keys: LeaseKeys;
  bounds: SessionBounds;
  layout: Layout;
  clock: Clock;
  metrics: Metrics;
  maxLeasesPerPrincipal: number;
}

export interface OpenedLease {
  readonly lease: Lease;
  /** Sealed under an older key. */
  readonly stale: boolean;
}

export class Leases {
  /** Grants on their way, by principal: they have no session in the cache yet. */
  readonly #granting = new Map<string, number>();
  readonly #options: LeasesOptions;
  readonly #opened = new LruMap<string, OpenedLease>(OPENED_MAX);

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  get sessions(): AttachedSessions {
    return this.#options.sessions;
  }

  /** @throws InvalidError when the ensemble does not allow the TTL */
  async create(request: CreateLease, deadline: number): Promise<GrantedLease> {
    await this.#checkTtl(request.ttlMs, deadline);
    const path =
      request.requestId === undefined
        ? undefined
        : this.#options.layout.request(request.namespace, request.principal, request.requestId);
    for (let attempt = 0; ; attempt += 1) {
      const known = path === undefined ? undefined : await this.#findByRequest(path, request, deadline);
      if (known !== undefined) return known;
      const granted = await this.#admitted(request.principal, () => this.#grant(request, path, deadline));
      if (granted !== undefined) return granted;
      await pause(fullJitter(attempt, 2, 50));
    }
  }

  /**
   * Opens a token that a client sent.
   * @throws PosternError `invalid-lease-token` when it does not open, or is another principal's or of another namespace
   */
  async open(token: string, caller: Caller, deadline: number): Promise<OpenedLease> {
    const known = this.openKnown(token, caller);
    if (known !== undefined) return known;
    const ring = await this.#options.keys.ring(deadline);
    const sealed = ring.open(token);
    if (sealed === undefined)
      throw new PosternError(
        'invalid-lease-token',
        'The lease token does not open: it was cut, changed, or sealed under a key that this gateway does not have.',
      );
    const opened = { lease: new Lease(sealed.grant), stale: sealed.stale };
    this.#opened.set(token, opened);
    return this.#checked(opened, caller);
  }

  /** As `open`, at once. @returns undefined for a token that was not opened here lately */
  openKnown(token: string, caller: Caller): OpenedLease | undefined {
    const opened = this.#opened.get(token);
    return opened === undefined ? undefined : this.#checked(opened, caller);
  }

  #checked(opened: OpenedLease, caller: Caller): OpenedLease {
    const { lease } = opened;
    if (lease.principal !== caller.principal)
      throw new PosternError('invalid-lease-token', 'The lease token was issued to another principal.');
    if (caller.namespace !== undefined && lease.namespace !== caller.namespace) {
      throw new PosternError(
        'invalid-lease-token',
        `The lease token belongs to namespace "${lease.namespace}", not "${caller.namespace}".`,
      );
    }
    return opened;
  }

  /** Keeps the lease alive. @throws LeaseExpiredError when it has ended */
  async heartbeat(token: string, caller: Caller, deadline: number): Promise<Heartbeat> {
    const opened = await this.open(token, caller, deadline);
    const { notices: _, ...heartbeat } = await this.heartbeatAndRead(opened, deadline, () => Promise.resolve());
    return heartbeat;
  }

  /** As `heartbeat` of a token that was opened, and in the same round trip reads what the lease has to be told. */
  async heartbeatAndRead<T>(
    { lease, stale }: OpenedLease,
    deadline: number,
    read: (session: LeaseSession, lease: Lease) => Promise<T>,
  ): Promise<Heartbeat & { notices: T }> {
    const { metrics, keys } = this.#options;
    try {
      const { expiresAt, notices } = await this.sessions.useRepeatedly(lease, deadline, async (session) => {
        const until = this.expiresAt(lease);
        // Answered in order on one connection, so what is read is as new as the `sync`.
        const [, told] = await Promise.all([session.sync('/', deadline), read(session, lease)]);
        return { expiresAt: until, notices: told };
      });
      metrics.leaseHeartbeatsTotal.inc({ outcome: 'ok' });
      return {
        lease,
        expiresAt,
        notices,
        leaseToken: stale ? (await keys.ring(deadline)).seal(lease.grant) : undefined,
      };
    } catch (error) {
      metrics.leaseHeartbeatsTotal.inc({ outcome: error instanceof LeaseExpiredError ? 'expired' : 'failed' });
      throw error;
    }
  }

  /** The heartbeat itself. @returns until when the lease lives at least, epoch ms */
  touch(lease: Lease, deadline: number): Promise<number> {
    return this.sessions.useRepeatedly(lease, deadline, async (session) => {
      const expiresAt = this.expiresAt(lease);
      await session.sync('/', deadline);
      return expiresAt;
    });
  }

  /** Until when a lease lives at least that is heard of now. */
  expiresAt(lease: Lease): number {
    return this.#options.clock.now() + lease.ttlMs;
  }

  /** The record of the lease and the paths of everything it owns. */
  show(
    lease: Lease,
    deadline: number,
  ): Promise<{ record: LeaseRecord | undefined; paths: string[]; expiresAt: number }> {
    const { layout } = this.#options;
    return this.sessions.useRepeatedly(lease, deadline, async (session) => {
      const expiresAt = this.expiresAt(lease);
      const [, paths, node] = await Promise.all([
        session.sync('/', deadline),
        session.getEphemerals(layout.namespace(lease.namespace), deadline),
        unless(session.getData(layout.lease(lease.namespace, lease.leaseId), deadline), 'NO_NODE'),
      ]);
      return { record: node === undefined ? undefined : parseRecord(node.data), paths, expiresAt };
    });
  }

  /** Frees everything that the lease holds. Ending an ended lease is fine. */
  end(lease: Lease, deadline: number): Promise<void> {
    return this.sessions.end(lease, deadline);
  }

  /** Leases of a namespace in the order of their ids. */
  async list(
    namespace: string,
    page: Page,
    deadline: number,
  ): Promise<{ items: LeaseRecord[]; next: string | undefined }> {
    const { control, layout } = this.#options;
    const directory = layout.leases(namespace);
    await control.sync(directory, deadline);
    const buckets = (await unless(control.getChildren(directory, deadline), 'NO_NODE'))?.children.sort() ?? [];
    const items: LeaseRecord[] = [];
    for (const bucket of buckets) {
      if (page.after !== undefined && bucket < page.after.slice(0, BUCKET_DIGITS)) continue;
      if (!bucket.startsWith(page.prefix.slice(0, BUCKET_DIGITS)) && !page.prefix.startsWith(bucket)) continue;
      const listing = await unless(control.getChildren(`${directory}/${bucket}`, deadline), 'NO_NODE');
      const ids = pageOfNames(listing?.children ?? [], page);
      const wanted = ids.slice(0, page.limit - items.length + 1);
      const records = await Promise.all(wanted.map((id) => this.find(namespace, id, deadline)));
      for (const record of records) if (record !== undefined) items.push(record);
      if (items.length > page.limit) return { items: items.slice(0, page.limit), next: items[page.limit - 1]?.leaseId };
    }
    return { items, next: undefined };
  }

  /** What is known of a lease by its public id. */
  async find(namespace: string, leaseId: string, deadline: number): Promise<LeaseRecord | undefined> {
    const node = await unless(
      this.#options.control.getData(this.#options.layout.lease(namespace, leaseId), deadline),
      'NO_NODE',
    );
    return node === undefined ? undefined : parseRecord(node.data);
  }

  /** The living lease whose session that is. Looks through all leases of the namespace: for what happens rarely. */
  async findByOwner(namespace: string, owner: bigint, deadline: number): Promise<LeaseRecord | undefined> {
    const { control, layout } = this.#options;
    const children = async (path: string): Promise<string[]> =>
      (await unless(control.getChildren(path, deadline), 'NO_NODE'))?.children ?? [];
    for (const bucket of await children(layout.leases(namespace))) {
      const ids = await children(`${layout.leases(namespace)}/${bucket}`);
      const stats = await Promise.all(ids.map((id) => control.exists(layout.lease(namespace, id), deadline)));
      const found = ids.find((_, i) => stats[i]?.ephemeralOwner === owner);
      if (found !== undefined) return this.find(namespace, found, deadline);
    }
    return undefined;
  }

  /** As `find`, after a `sync`. */
  async findUpToDate(namespace: string, leaseId: string, deadline: number): Promise<LeaseRecord | undefined> {
    const { control, layout } = this.#options;
    const [, record] = await Promise.all([
      control.sync(layout.lease(namespace, leaseId), deadline),
      this.find(namespace, leaseId, deadline),
    ]);
    return record;
  }

  /** The lease behind a sealed token that was found in ZooKeeper, not sent by a client. */
  async openStored(token: string, deadline: number): Promise<Lease | undefined> {
    const opened = (await this.#options.keys.ring(deadline)).open(token);
    return opened === undefined ? undefined : new Lease(opened.grant);
  }

  async #checkTtl(ttlMs: number | undefined, deadline: number): Promise<void> {
    if (ttlMs === undefined) return;
    const { minTtlMs, maxTtlMs } = await this.#options.bounds.read(deadline);
    if (ttlMs < minTtlMs || ttlMs > maxTtlMs) throw ttlOutOfBounds(ttlMs, minTtlMs, maxTtlMs);
  }

  async #findByRequest(path: string, request: CreateLease, deadline: number): Promise<GrantedLease | undefined> {
    const { control } = this.#options;
    await control.sync(path, deadline);
    const node = await unless(control.getData(path, deadline), 'NO_NODE');
    if (node === undefined) return undefined;
    const leaseToken = node.data.toString('utf8');
    try {
      const { lease, expiresAt } = await this.heartbeat(
        leaseToken,
        { principal: request.principal, namespace: request.namespace },
        deadline,
      );
      return { lease, leaseToken, expiresAt };
    } catch (error) {
      // Ended a moment ago; its node is about to go.
      if (isPosternError(error, 'lease-expired')) return undefined;
      throw error;
    }
  }

  /**
   * Runs a grant when the principal may have one more lease. What counts are leases that this replica keeps a connection for: a lease has
   * one at the replica that was asked last, so that all replicas together bound what a principal has, but for leases that were evicted
   * for want of connections.
   * @throws PosternError `too-many-leases`
   */
  async #admitted<T>(principal: string, grant: () => Promise<T>): Promise<T> {
    const { maxLeasesPerPrincipal, metrics } = this.#options;
    const granting = this.#granting.get(principal) ?? 0;
    if (this.sessions.sizeOf(principal) + granting >= maxLeasesPerPrincipal) {
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

  /** @returns undefined when another try for the same request was faster */
  async #grant(
    request: CreateLease,
    requestPath: string | undefined,
    deadline: number,
  ): Promise<GrantedLease | undefined> {
    const { bounds, keys, clock } = this.#options;
    const ring = await keys.ring(deadline);
    const secret = randomBytes(SECRET_BYTES);
    const session = await this.sessions.open(request.ttlMs ?? DEFAULT_TTL_MS, affinityOf(secret), deadline);
    try {
      if (request.ttlMs !== undefined && session.timeoutMs !== request.ttlMs) {
        const { minTtlMs, maxTtlMs } = await bounds.reread(deadline);
        throw ttlOutOfBounds(request.ttlMs, minTtlMs, maxTtlMs);
      }
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
      const expiresAt = this.expiresAt(lease);
      if (!(await this.#register(session, lease, leaseToken, request, requestPath, deadline))) {
        await session.close(deadline);
        return undefined;
      }
      this.sessions.adopt(lease, session);
      return { lease, leaseToken, expiresAt };
    } catch (error) {
      // Nobody has the token: end the session now rather than at its timeout. When that fails too it lapses.
      if (!session.ended) await session.close(performance.now() + 1_000).catch(() => undefined);
      throw error;
    }
  }

  /** Writes the nodes by which the lease is found. @returns false when the request node is another lease's */
  async #register(
    session: LeaseSession,
    lease: Lease,
    leaseToken: string,
    request: CreateLease,
    requestPath: string | undefined,
    deadline: number,
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
    const leasePath = this.#options.layout.lease(lease.namespace, lease.leaseId);
    const nodes: MultiOperation[] = [
      { type: 'create', path: leasePath, data: Buffer.from(JSON.stringify(record)), mode: 'ephemeral' },
    ];
    if (requestPath !== undefined)
      nodes.push({ type: 'create', path: requestPath, data: Buffer.from(leaseToken), mode: 'ephemeral' });
    for (;;) {
      try {
        await session.multi(nodes, deadline);
        return true;
      } catch (error) {
        if (isReason(error, 'NODE_EXISTS')) return false;
        if (isReason(error, 'EPHEMERAL_ON_LOCAL_SESSION')) {
          throw new PosternError(
            'zookeeper-error',
            'The ensemble gives out local sessions without upgrading them; leases need localSessionsUpgradingEnabled or no local sessions.',
            { cause: error },
          );
        }
        if (!isReason(error, 'NO_NODE')) throw error;
        for (const node of nodes) await this.#options.control.ensurePath(parentOf(node.path), deadline);
      }
    }
  }
}

function ttlOutOfBounds(ttlMs: number, minTtlMs: number, maxTtlMs: number): InvalidError {
  return new InvalidError(
    'ttlMs',
    ttlMs,
    `between ${minTtlMs} and ${maxTtlMs}, the session timeouts that the ZooKeeper ensemble allows`,
    { minTtlMs, maxTtlMs },
  );
}

/** Another writer under our root may have put anything there. */
function parseRecord(data: Buffer): LeaseRecord | undefined {
  try {
    const record = JSON.parse(data.toString('utf8')) as LeaseRecord;
    return typeof record.leaseId === 'string' && typeof record.token === 'string' ? record : undefined;
  } catch {
    return undefined;
  }
}
