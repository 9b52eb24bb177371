/**
 * Leases: grant (`grant.ts`), heartbeat, show, end.
 *
 * Guarantee: a lease lives as long as it is heartbeated. It is a ZooKeeper session whose timeout is the TTL, so it is
 * ended by ZooKeeper and never by a timer here, and no earlier than the TTL after the sending of the last heartbeat
 * that was answered. Not guaranteed: that it ends *exactly* then. ZooKeeper rounds up to its next tick, and gives every
 * session a full timeout again when the ensemble elects a new leader.
 *
 * A heartbeat is a `sync` on the lease's session: it reaches the leader, which refuses it once the session has ended. A
 * follower might answer a ping without knowing that yet. Earlier answers on the same connection show whether the leader
 * has heard of the session in time (`LeaseSession.touchedAt`); if not, the session is attached anew, which asks the
 * leader (protocol C5).
 */
import { isPosternError, LeaseExpiredError, PosternError, StandingConflictError } from '../errors.js';
import { LruMap } from '../lru-map.js';
import { fullJitter, MINUTE, pause } from '../time.js';
import { NoReplyError, unless } from '../zookeeper/errors.js';
import type { LeaseSession } from '../zookeeper/lease-session.js';
import { patienceMs } from '../zookeeper/lease/patience.js';
import type { AttachedSessions } from './attached-sessions.js';
import { expiresAtOf, Granting, type CreateLease, type GrantedLease, type GrantingOptions } from './grant.js';
import { LeaseLife } from './lease-life.js';
import { Lease } from './lease.js';
import { LeaseRecords, parseRecord, type LeaseRecord } from './records.js';
import { reseal } from './reseal.js';

/** Opened tokens cached, so that a heartbeat does not decrypt each time. */
const OPENED_MAX = 50_000;
/** What to do about a token that lies in ZooKeeper and does not open. */
const KEY_GONE =
  'it was sealed under a key that this gateway does not have, or written over. Put the key that was dropped back, behind the others.';
/** A lease that has ended is not asked for again. */
const OPENED_KEPT_MS = 5 * MINUTE;

/**
 * How long a heartbeat may take to be answered, whatever the answer, in ms: a quarter of the TTL (for one below 6 s in
 * proportion to the patience with a server).
 */
export function heartbeatMs(ttlMs: number): number {
  return patienceMs(ttlMs) * 1.5;
}

export interface Caller {
  principal: string;
  namespace: string | undefined;
}

export interface Heartbeat {
  lease: Lease;
  expiresAt: number;
  /** Sealed anew, if the old token was sealed under a key that is being phased out (`reseal.ts`). */
  leaseToken: string | undefined;
}

export interface OpenedLease {
  readonly lease: Lease;
  /** Sealed under an older key. */
  readonly stale: boolean;
}

export class Leases {
  /** Looks leases up by their public ids. */
  readonly records: LeaseRecords;
  readonly #options: GrantingOptions;
  readonly #granting: Granting;
  readonly #opened = new LruMap<string, OpenedLease>(OPENED_MAX, OPENED_KEPT_MS);

  constructor(options: GrantingOptions) {
    this.records = new LeaseRecords(options.control, options.layout);
    this.#options = options;
    this.#granting = new Granting(options);
  }

  get sessions(): AttachedSessions {
    return this.#options.sessions;
  }

  /** @throws InvalidError if the ensemble does not allow the TTL */
  async create(request: CreateLease, deadline: number): Promise<GrantedLease> {
    const { bounds } = this.#options;
    if (request.ttlMs !== undefined) await bounds.check(request.ttlMs, deadline);
    const requestPath =
      request.requestId === undefined
        ? undefined
        : this.#options.layout.request(request.namespace, request.principal, request.requestId);
    for (let attempt = 0; ; attempt += 1) {
      const known = requestPath === undefined ? undefined : await this.#findByRequest(requestPath, request, deadline);
      if (known !== undefined) return known;
      const granted = await this.#granting.grant({ request, requestPath, deadline });
      if (granted !== undefined) return granted;
      await pause(fullJitter(attempt, 2, 50));
    }
  }

  /**
   * Opens a token that a client sent.
   * @throws PosternError `invalid-lease-token` if it does not open, or belongs to another principal or namespace
   */
  async open(token: string, caller: Caller, deadline: number): Promise<OpenedLease> {
    const opened = await this.openIfOwn(token, caller, deadline);
    if (opened !== undefined) return opened;
    throw new PosternError('invalid-lease-token', `The lease token does not open: ${whyClosed(token)}`);
  }

  /** As `open`, but undefined for a token that does not open: it may be one of another ensemble. */
  async openIfOwn(token: string, caller: Caller, deadline: number): Promise<OpenedLease | undefined> {
    const known = this.openKnown(token, caller);
    if (known !== undefined) return known;
    const sealed = (await this.#options.keys.ring(deadline)).open(token);
    if (sealed === undefined) return undefined;
    const opened = { lease: new Lease(sealed.grant), stale: sealed.stale };
    this.#opened.set(token, opened);
    return this.#checked(opened, caller);
  }

  /** The namespace of a token that was opened here lately, whoever sends it. */
  namespaceKnown(token: string): string | undefined {
    return this.#opened.get(token)?.lease.namespace;
  }

  /** Whether the keys that open tokens are known: then opening one asks nobody. */
  get isKeyKnown(): boolean {
    return this.#options.keys.isKnown;
  }

  /**
   * As `open`, but synchronous.
   * @returns undefined for a token that was not opened here recently
   */
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

  /**
   * Keeps the lease alive, and reads, in the same round trip, what it must be told.
   * @throws LeaseExpiredError if it has ended
   */
  async heartbeatAndRead<T>(
    { lease, stale }: OpenedLease,
    deadline: number,
    read: (session: LeaseSession, synced: Promise<unknown>) => Promise<T>,
  ): Promise<Heartbeat & { notices: T }> {
    const { metrics } = this.#options;
    try {
      // A client without an answer by then has no time left to try another replica.
      const until = Math.min(deadline, performance.now() + heartbeatMs(lease.ttlMs));
      const { expiresAt, told } = await this.prolong(lease, until, read);
      metrics.leaseHeartbeatsTotal.inc({ outcome: 'ok' });
      return {
        lease,
        expiresAt,
        notices: told,
        leaseToken: stale ? await reseal(this.#options, lease, until) : undefined,
      };
    } catch (error) {
      metrics.leaseHeartbeatsTotal.inc({ outcome: error instanceof LeaseExpiredError ? 'expired' : 'failed' });
      throw error;
    }
  }

  /**
   * The heartbeat itself.
   * @returns the earliest possible end of the lease, epoch ms
   */
  async touch(lease: Lease, deadline: number): Promise<number> {
    return (await this.prolong(lease, deadline, () => undefined)).expiresAt;
  }

  /**
   * Watches for the end of the lease until stopped.
   * @param onDoubt called when the lease may have ended: touch it to find out
   */
  lifeOf(lease: Lease, onDoubt: () => void): LeaseLife {
    return new LeaseLife(this.#options, lease, this.#options.layout.lease(lease.namespace, lease.leaseId), onDoubt);
  }

  /** The earliest possible end of a session's lease, from the answers on it so far; epoch ms. */
  expiresAt(session: LeaseSession): number {
    return expiresAtOf(session, this.#options.clock);
  }

  /** The record of the lease and the paths of everything it owns. */
  async show(
    lease: Lease,
    deadline: number,
  ): Promise<{ record: LeaseRecord | undefined; paths: string[]; expiresAt: number }> {
    const { layout } = this.#options;
    const { expiresAt, told } = await this.prolong(lease, deadline, (session) =>
      Promise.all([
        session.getEphemerals(layout.namespace(lease.namespace), deadline),
        unless(session.getData(layout.lease(lease.namespace, lease.leaseId), deadline), 'NO_NODE'),
      ]),
    );
    const [paths, node] = told;
    return { record: node === undefined ? undefined : parseRecord(node.data), paths, expiresAt };
  }

  /**
   * Prolongs the lease and reads in the same round trip: answers on one connection keep their order, so the reading is
   * as new as the `sync`.
   * @param read is given the `sync`, which has just been sent
   */
  prolong<T>(
    lease: Lease,
    deadline: number,
    read: (session: LeaseSession, synced: Promise<unknown>) => Promise<T> | T,
  ): Promise<{ expiresAt: number; told: T }> {
    return this.sessions.useRepeatedly(lease, deadline, async (session) => {
      const sentAt = performance.now();
      const synced = session.sync('/', deadline);
      const [, told] = await Promise.all([synced, read(session, synced)]);
      // Answered too late to be sure that it prolonged the lease: repeat it, then on a new connection.
      if (session.touchedAt < sentAt) throw new NoReplyError('the heartbeat', 'deadline', false);
      return { expiresAt: this.expiresAt(session), told };
    });
  }

  /**
   * Ends a lease that nobody else knows, and frees everything it holds (`endLease` is for the others). Ending an ended
   * lease is fine.
   */
  end(lease: Lease, deadline: number): Promise<void> {
    return this.sessions.end(lease, deadline);
  }

  /** The lease of a sealed token found in ZooKeeper rather than sent by a client. */
  async openStored(token: string, deadline: number): Promise<Lease | undefined> {
    const opened = (await this.#options.keys.ring(deadline)).open(token);
    return opened === undefined ? undefined : new Lease(opened.grant);
  }

  /** As `openStored`, and the token as it is to be kept there: under the key that seals now. */
  async openKept(token: string, deadline: number): Promise<{ lease: Lease; leaseToken: string } | undefined> {
    const ring = await this.#options.keys.ring(deadline);
    const opened = ring.open(token);
    if (opened === undefined) return undefined;
    return { lease: new Lease(opened.grant), leaseToken: opened.stale ? ring.seal(opened.grant) : token };
  }

  /**
   * The lease with this public id, by a quorum.
   * @throws StandingConflictError if there is one whose record does not open
   */
  async find(
    namespace: string,
    leaseId: string,
    deadline: number,
  ): Promise<{ record: LeaseRecord; lease: Lease } | undefined> {
    const zk = this.#options.control.until(deadline);
    const node = await zk.fresh(() => zk.find(this.#options.layout.lease(namespace, leaseId)));
    if (node === undefined) return undefined;
    const record = parseRecord(node.data);
    const lease = record === undefined ? undefined : await this.openStored(record.token, deadline);
    if (record !== undefined && lease !== undefined) return { record, lease };
    throw new StandingConflictError(
      `The lease "${leaseId}" lives, but its record does not open: ${KEY_GONE} Without heartbeats it ends with its TTL. Nothing was done.`,
    );
  }

  async #findByRequest(path: string, request: CreateLease, deadline: number): Promise<GrantedLease | undefined> {
    const { control } = this.#options;
    await control.sync(path, deadline);
    const node = await unless(control.getData(path, deadline), 'NO_NODE');
    if (node === undefined) return undefined;
    const stored = node.data.toString('utf8');
    const opened = await this.openIfOwn(stored, request, deadline);
    if (opened === undefined)
      throw new StandingConflictError(
        `This requestId has been used for a lease that lives, and whose token does not open any more: ${KEY_GONE} Or send another requestId: that makes another lease.`,
      );
    try {
      const { lease, expiresAt, leaseToken } = await this.heartbeatAndRead(opened, deadline, () => Promise.resolve());
      checkSameLabel(lease, request.label);
      return { lease, leaseToken: leaseToken ?? stored, expiresAt, found: true };
    } catch (error) {
      // It has just ended; its node is about to go.
      if (isPosternError(error, 'lease-expired')) return undefined;
      throw error;
    }
  }
}

/**
 * A repeated request names the same label. A different label means another client that happens to use the same
 * requestId. The token has the label in UTF-8, which has no half of a surrogate pair.
 * @throws PosternError `conflict`
 */
export function checkSameLabel(lease: Lease, label = ''): void {
  if (lease.label === label.toWellFormed()) return;
  throw new StandingConflictError(
    `This requestId has been used for a lease with the label "${lease.label}", not "${label}": every client sends one of its own, made at random.`,
    { label: lease.label },
  );
}

function whyClosed(token: string): string {
  if (/^bearer /i.test(token))
    return 'Lease-Token holds the token alone, without "Bearer"; Authorization is for credentials.';
  if (/^[0-9a-f]{32}$/.test(token)) return 'this looks like a leaseId; send the leaseToken that came with it.';
  return 'it was cut, changed, or sealed under a key that this gateway does not have.';
}
