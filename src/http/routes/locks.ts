/** `/v1/locks`, `/v1/rwlocks` and `/v1/semaphores`: the requests about lines in which somebody holds, in the words of the contract. */
import { InvalidError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../../recipes/acquire.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { ContenderView } from '../../recipes/describe.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../../recipes/line-lock.js';
import { setLimit } from '../../recipes/semaphore.js';
import { etagOf, type LineObservers } from '../../recipes/line-observer.js';
import {
  checkToken,
  describeLine,
  listLines,
  listWaiters,
  type LineView,
  type WaiterView,
} from '../../recipes/line-view.js';
import type { LineKind } from '../../leases/layout.js';
import type { Mode } from '../../recipes/rule.js';
import { endReason, instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes } from '../exchange.js';
import { matchesEtag } from './etag.js';
import { lockHeld } from './lock-held.js';
import { acquireManyLocks } from './many-locks.js';
import { revokeHolds } from './revoke.js';
import { holderStream } from './holder-stream.js';
import {
  leaseOf,
  namespaceOf,
  namespaceOfReader,
  pageOfAllowed,
  pageTokenOf,
  positionPageOf,
  requestIdOf,
} from './subject.js';

type Schemas = components['schemas'];

const NEVER = new AbortController().signal;

export function lockRoutes(context: Coordination, observers: LineObservers): Routes {
  const lock = new LineRoutes(context, observers, 'lock');
  const rwlock = new LineRoutes(context, observers, 'rwlock');
  const semaphore = new LineRoutes(context, observers, 'semaphore');
  return {
    acquireLock: (exchange) => lock.acquire(exchange),
    acquireLocks: (exchange) => acquireManyLocks(context, exchange),
    releaseLock: (exchange) => lock.release(exchange),
    showLock: (exchange) => lock.show(exchange),
    watchLock: (exchange) => lock.watch(exchange),
    listLockWaiters: (exchange) => lock.listWaiters(exchange),
    listLocks: (exchange) => lock.list(exchange),
    checkLock: (exchange) => lock.check(exchange),
    revokeLock: (exchange) => revokeHolds(context, 'lock', exchange),
    revokeReadWriteLock: (exchange) => revokeHolds(context, 'rwlock', exchange),
    revokeSemaphore: (exchange) => revokeHolds(context, 'semaphore', exchange),
    acquireReadWriteLock: (exchange) => rwlock.acquire(exchange),
    releaseReadWriteLock: (exchange) => rwlock.release(exchange),
    showReadWriteLock: (exchange) => rwlock.show(exchange),
    watchReadWriteLock: (exchange) => rwlock.watch(exchange),
    listReadWriteLockWaiters: (exchange) => rwlock.listWaiters(exchange),
    listReadWriteLocks: (exchange) => rwlock.list(exchange),
    checkReadWriteLock: (exchange) => rwlock.check(exchange),
    acquireSemaphore: (exchange) => semaphore.acquire(exchange),
    releaseSemaphore: (exchange) => semaphore.release(exchange),
    showSemaphore: (exchange) => semaphore.show(exchange),
    setSemaphoreLimit: (exchange) => semaphore.setLimit(exchange),
    watchSemaphore: (exchange) => semaphore.watch(exchange),
    listSemaphoreWaiters: (exchange) => semaphore.listWaiters(exchange),
    listSemaphores: (exchange) => semaphore.list(exchange),
    checkSemaphore: (exchange) => semaphore.check(exchange),
  };
}

class LineRoutes {
  readonly #context: Coordination;
  readonly #observers: LineObservers;
  readonly #kind: LineKind;

  constructor(context: Coordination, observers: LineObservers, kind: LineKind) {
    this.#context = context;
    this.#observers = observers;
    this.#kind = kind;
  }

  async acquire(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['AcquireLockRequest'] & { mode?: Mode; limit?: number; count?: number };
    const waitMs = body.waitMs ?? 0;
    const request: AcquireLine = {
      kind: this.#kind,
      mode: body.mode ?? (this.#kind === 'semaphore' ? 'shared' : 'exclusive'),
      permits: permitsOf(body),
      name: nameOf(exchange),
      requestId: requestIdOf(exchange, body),
      waitMs,
      keepPlace: body.keepPlace ?? false,
      data: body.data,
      lockDelayMs: body.lockDelayMs,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      // Who does not wait is not told of anything that ends the wait.
      signal: waitMs > 0 || body.lease !== undefined ? exchange.signal : NEVER,
    };
    if (body.lease === undefined) {
      const lease = await leaseOf(exchange, this.#context.leases);
      return answerAcquire(request, lease, undefined, await acquireLine(this.#context, lease, request), exchange);
    }
    if (exchange.leaseToken !== undefined)
      throw new InvalidError(
        'lease',
        body.lease,
        'absent when the header Lease-Token is sent: a request has one lease',
      );
    if (request.requestId === '')
      throw new InvalidError(
        'requestId',
        undefined,
        'given together with lease, so that a retry finds the lease that the first try made',
      );
    const namespace = namespaceOf(exchange, 'use');
    const newLease = { principal: exchange.principal.id, namespace, ttlMs: body.lease.ttlMs, label: body.lease.label };
    const { result, lease, leaseToken } = await acquireLineWithLease(this.#context, newLease, request);
    return answerAcquire(request, lease, leaseToken, result, exchange);
  }

  async release(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['ReleaseLockRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    await releaseLine(this.#context, this.#kind, {
      lease,
      name: nameOf(exchange),
      holdId: body.holdId,
      requestId: requestIdOf(exchange, body),
      deadline: exchange.deadline,
    });
    return { status: 204 };
  }

  async show(exchange: Exchange): Promise<Answer | EventStream> {
    if (exchange.wantsEvents) return this.watch(exchange);
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const { waitMs = 0, consistency } = exchange.query as { waitMs?: number; consistency?: string };
    const known = exchange.headers['if-none-match'] as string | undefined; // node never makes a list of this header
    let etag: string | undefined;
    const isKnown = (current: string): boolean => known !== undefined && matchesEtag(known, (etag = current));
    if (waitMs > 0 && known !== undefined) {
      const directory = this.#context.layout.line(this.#kind, namespace, name);
      const changed = await this.#observers.changed(
        this.#kind,
        directory,
        isKnown,
        exchange.receivedAt + waitMs,
        exchange.signal,
      );
      if (changed === undefined && endReason(exchange.signal) === 'draining')
        throw new PosternError('draining', 'This replica is shutting down; repeat the request.');
      // Without any state seen it is not known that nothing changed: ZooKeeper is asked once more, and may not answer.
      if (changed === undefined && etag !== undefined) return { status: 304, headers: { ETag: etag } };
    }
    const line = await describeLine(
      this.#context,
      this.#kind,
      namespace,
      name,
      exchange.deadline + waitMs,
      consistency === 'stale',
    );
    etag = etagOf(line.holders, line.limit);
    if (isKnown(etag)) return { status: 304, headers: { ETag: etag } };
    return { status: 200, body: showLine(line), headers: { ETag: etag } };
  }

  /** A semaphore's. */
  async setLimit(exchange: Exchange): Promise<Answer> {
    const namespace = namespaceOf(exchange, 'use');
    const name = nameOf(exchange);
    const { limit } = exchange.body as Schemas['SetSemaphoreLimitRequest'];
    await setLimit(this.#context, namespace, name, limit, exchange.deadline);
    return {
      status: 200,
      body: showLine(await describeLine(this.#context, this.#kind, namespace, name, exchange.deadline)),
    };
  }

  async watch(exchange: Exchange): Promise<EventStream> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const name = nameOf(exchange);
    const directory = this.#context.layout.line(this.#kind, namespace, name);
    return holderStream(exchange, this.#observers, this.#kind, directory, ({ limit, holders }) => ({
      name,
      ...(limit === undefined ? {} : { limit }),
      holders: holders.map(describeHolder),
    }));
  }

  async listWaiters(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { items, next } = await listWaiters(
      this.#context,
      this.#kind,
      namespace,
      nameOf(exchange),
      positionPageOf(exchange),
      exchange.deadline,
    );
    const body: Schemas['WaiterList'] = { items: items.map(describeWaiter), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { items, next } = await listLines(
      this.#context,
      this.#kind,
      namespace,
      pageOfAllowed(exchange, namespace),
      exchange.deadline,
    );
    const body: Schemas['LockList'] = {
      items: items.map(({ name, limit, permitsHeld, holders, holderCount, waiterCount, oldestWaitSince }) => ({
        name,
        ...(limit === undefined ? {} : { limit, permitsHeld }),
        holders: holders.map(describeHolder),
        holderCount,
        waiterCount,
        oldestWaitSince: oldestWaitSince === null ? null : instant(oldestWaitSince),
      })),
      ...pageTokenOf(next),
    };
    return { status: 200, body };
  }

  async check(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOfReader(exchange, this.#context.leases);
    const { fencingToken } = exchange.body as Schemas['CheckRequest'];
    const body: Schemas['CheckedToken'] = await checkToken(
      this.#context,
      this.#kind,
      namespace,
      nameOf(exchange),
      fencingToken,
      exchange.deadline,
    );
    return { status: 200, body };
  }
}

function answerAcquire(
  request: AcquireLine,
  lease: Lease,
  leaseToken: string | undefined,
  result: Granted | NotGranted,
  exchange: Exchange,
): Answer {
  const { name, requestId } = request;
  if (result.held) {
    const body: Schemas['AcquiredLock'] & { count?: number } = {
      name,
      held: true,
      holdId: result.holdId,
      fencingToken: result.fencingToken,
      requestId,
      waitedMs: result.waitedMs,
      alreadyHeld: result.alreadyHeld,
      leaseId: lease.leaseId,
      ttlMs: lease.ttlMs,
      expiresAt: instant(result.expiresAt),
    };
    if (request.permits !== undefined) body.count = request.permits.count;
    if (leaseToken !== undefined) body.leaseToken = leaseToken;
    return { status: 200, body, undelivered: result.undelivered };
  }
  const token = leaseToken === undefined ? {} : { leaseToken };
  switch (result.why) {
    case 'kept': {
      const position = Math.max(1, result.position);
      const body: Schemas['KeptPlace'] = {
        name,
        held: false,
        position,
        requestId,
        leaseId: lease.leaseId,
        ttlMs: lease.ttlMs,
        ...token,
      };
      return { status: 202, body };
    }
    case 'draining':
      throw new PosternError(
        'draining',
        `This replica is shutting down. The place in line for "${name}" is kept; repeat the same request, another replica takes it up.`,
      );
    case 'client-gone':
      throw new PosternError(
        endReason(exchange.signal) === 'draining' ? 'draining' : 'conflict',
        'The client went away.',
      );
    case 'refused':
    case 'rival':
      throw lockHeld(request, result);
  }
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}

function showLine({
  name,
  limit,
  permitsHeld,
  holders,
  holderCount,
  waiters,
  waiterCount,
  lockedUntil,
}: LineView): Schemas['Lock'] & { limit?: number | undefined; permitsHeld?: number | undefined } {
  return {
    name,
    ...(limit === undefined ? {} : { limit, permitsHeld }),
    holders: holders.map(describeHolder),
    holderCount,
    waiters: waiters.map(describeWaiter),
    waiterCount,
    ...(lockedUntil === undefined ? {} : { lockedUntil: instant(lockedUntil) }),
  };
}

function permitsOf({ limit, count = 1 }: { limit?: number; count?: number }): AcquireLine['permits'] {
  if (limit === undefined) return undefined;
  if (count > limit) throw new InvalidError('count', count, `at most limit, which is ${limit}`, { limit });
  return { limit, count };
}

function describeHolder(view: ContenderView): Schemas['Holder'] {
  return {
    holdId: view.external ? null : view.holdId,
    ...describeWho(view),
    fencingToken: view.fencingToken,
    mode: view.mode,
    ...(view.count === undefined ? {} : { count: view.count }),
    since: instant(view.since),
    data: view.data ?? null,
    revocable: !view.external,
    external: view.external,
  };
}

function describeWaiter(view: WaiterView): Schemas['Waiter'] {
  return {
    ...describeWho(view),
    mode: view.mode,
    ...(view.count === undefined ? {} : { count: view.count }),
    position: view.position,
    since: instant(view.since),
    external: view.external,
  };
}

function describeWho({ external, leaseId, principal, label }: ContenderView): {
  leaseId: string | null;
  principal: string | null;
  label: string | null;
} {
  return external ? { leaseId: null, principal: null, label: null } : { leaseId, principal, label };
}
