/**
 * `/v1/locks`, `/v1/rwlocks` and `/v1/semaphores`: the requests about lines with holders, in the words of the contract.
 */
import { InvalidError } from '../../errors.js';
import { asShown } from '../../json-text.js';
import type { Lease } from '../../leases/lease.js';
import type { Granted, NotGranted } from '../../recipes/line/acquire.js';
import { orUnknown } from '../../recipes/behind-write.js';
import type { Coordination } from '../../recipes/coordination.js';
import type { ContenderView } from '../../recipes/line/describe.js';
import { acquireLine, acquireLineWithLease, releaseLine, type AcquireLine } from '../../recipes/line/request.js';
import type { ReleaseRequest } from '../../recipes/line/release.js';
import { releaseLock } from '../../recipes/lock/lock.js';
import { acquireByPriority } from '../../recipes/lock/priority.js';
import { setLimit } from '../../recipes/semaphore/semaphore.js';
import { etagOf, type HolderState, type HolderObservers, type LineSubject } from '../../recipes/line/observer.js';
import {
  checkToken,
  describeLine,
  describeLineStale,
  listLines,
  listWaiters,
  type LineName,
  type LineView,
  type WaiterView,
} from '../../recipes/line/view.js';
import type { LineKind } from '../../leases/layout.js';
import { PLACE_KEY } from '../../recipes/line-page.js';
import type { Mode } from '../../recipes/line/contender.js';
import { instant } from '../../time.js';

import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { describeReservation } from './shared/holder-reservation.js';
import { lockHeld } from './shared/lock-held.js';
import { acquireManyLocks } from './many-locks.js';
import { breakOne, showNodes } from './shared/nodes.js';
import { newLeaseOf } from './shared/one-call.js';
import { revokeHolds } from './shared/revoke.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { leaseOf, namespaceOf, pageOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';
import { drainingInPlace, keptPlace, leftTheLine } from './shared/wait-ended.js';

type Schemas = components['schemas'];

export function lockRoutes({ watchables, context, recipes }: Building): Routes {
  const { observers } = recipes.line;
  const lock = new LineRoutes(context, observers, 'lock');
  const rwlock = new LineRoutes(context, observers, 'rwlock');
  const semaphore = new LineRoutes(context, observers, 'semaphore');
  for (const { kind, state } of [lock, rwlock, semaphore]) watchables.set(kind, state);
  return {
    acquireLock: (exchange) => lock.acquire(exchange),
    acquireLocks: (exchange) => acquireManyLocks(context, exchange),
    releaseLock: (exchange) => lock.release(exchange),
    showLock: (exchange) => lock.state.show(exchange),
    watchLock: (exchange) => lock.state.watch(exchange),
    listLockWaiters: (exchange) => lock.listWaiters(exchange),
    listLocks: (exchange) => lock.list(exchange),
    checkLock: (exchange) => lock.check(exchange),
    revokeLock: (exchange) => revokeHolds(context, 'lock', exchange),
    revokeReadWriteLock: (exchange) => revokeHolds(context, 'rwlock', exchange),
    revokeSemaphore: (exchange) => revokeHolds(context, 'semaphore', exchange),
    listLockNodes: (exchange) => showNodes(context, 'lock', exchange),
    listReadWriteLockNodes: (exchange) => showNodes(context, 'rwlock', exchange),
    listSemaphoreNodes: (exchange) => showNodes(context, 'semaphore', exchange),
    breakLock: (exchange) => breakOne(context, 'lock', exchange),
    breakReadWriteLock: (exchange) => breakOne(context, 'rwlock', exchange),
    breakSemaphore: (exchange) => breakOne(context, 'semaphore', exchange),
    acquireReadWriteLock: (exchange) => rwlock.acquire(exchange),
    releaseReadWriteLock: (exchange) => rwlock.release(exchange),
    showReadWriteLock: (exchange) => rwlock.state.show(exchange),
    watchReadWriteLock: (exchange) => rwlock.state.watch(exchange),
    listReadWriteLockWaiters: (exchange) => rwlock.listWaiters(exchange),
    listReadWriteLocks: (exchange) => rwlock.list(exchange),
    checkReadWriteLock: (exchange) => rwlock.check(exchange),
    acquireSemaphore: (exchange) => semaphore.acquire(exchange),
    releaseSemaphore: (exchange) => semaphore.release(exchange),
    showSemaphore: (exchange) => semaphore.state.show(exchange),
    setSemaphoreLimit: (exchange) => semaphore.setLimit(exchange),
    watchSemaphore: (exchange) => semaphore.state.watch(exchange),
    listSemaphoreWaiters: (exchange) => semaphore.listWaiters(exchange),
    listSemaphores: (exchange) => semaphore.list(exchange),
    checkSemaphore: (exchange) => semaphore.check(exchange),
  };
}

class LineRoutes {
  readonly state: StateRoutes<LineName & LineSubject, HolderState, LineView & { etag: string }>;
  readonly #context: Coordination;
  readonly kind: LineKind;

  constructor(context: Coordination, observers: HolderObservers, kind: LineKind) {
    this.#context = context;
    this.kind = kind;
    this.state = new StateRoutes(context, {
      what: `the ${kind}`,
      observers,
      subject: (namespace, name) => ({ kind, namespace, name, path: context.layout.line(kind, namespace, name) }),
      read: async (line, zk) => {
        const view = await describeLineStale(context, zk, line);
        return { ...view, etag: etagOf(view.holders, view.limit) };
      },
      etagOf: ({ etag }) => etag,
      show: (line) => ({ body: showLine(line) }),
      event: ({ limit, holders }, { name }) => ({
        name,
        ...(limit === undefined ? {} : { limit: shownLimit(limit) }),
        holders: holders.map(describeHolder),
      }),
      inUse: ({ holders }) => holders.length > 0,
    });
  }

  async acquire(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['AcquireLockRequest'] & {
      mode?: Mode;
      downgradable?: boolean;
      limit?: number;
      count?: number;
    };
    const waitMs = body.waitMs ?? 0;
    const data = asShown(body.data);
    delete body.data; // else the exchange would keep it
    if (body.mode === 'read' && body.downgradable === true)
      throw new InvalidError('downgradable', true, 'true only with mode write');
    const request: AcquireLine = {
      kind: this.kind,
      mode: body.mode ?? (this.kind === 'semaphore' ? 'shared' : 'exclusive'),
      permits: this.kind === 'semaphore' ? permitsOf(body) : undefined,
      priority: priorityOf(body),
      name: nameOf(exchange),
      requestId: requestIdOf(exchange, body),
      waitMs,
      keepPlace: body.keepPlace ?? false,
      data,
      lockDelayMs: body.lockDelayMs,
      downgradable: body.mode === 'write' && body.downgradable === true,
      receivedAt: exchange.receivedAt,
      hardDeadline: exchange.deadline + waitMs,
      requester: exchange.requester,
    };
    if (body.lease === undefined) {
      const lease = await leaseOf(exchange, this.#context.leases);
      const { priority } = request;
      const result =
        priority === undefined
          ? acquireLine(this.#context, lease, request)
          : acquireByPriority(this.#context, lease, { ...request, priority });
      return answerAcquire(request, lease, undefined, await result, exchange);
    }
    const newLease = newLeaseOf(exchange, body, body.lease);
    const { result, lease, leaseToken } = await acquireLineWithLease(this.#context, newLease, request);
    return answerAcquire(request, lease, leaseToken, result, exchange);
  }

  async release(exchange: Exchange): Promise<Answer> {
    const body = exchange.body as Schemas['ReleaseLockRequest'];
    const lease = await leaseOf(exchange, this.#context.leases);
    const request: ReleaseRequest = {
      lease,
      name: nameOf(exchange),
      holdId: body.holdId,
      requestId: requestIdOf(exchange, body),
      deadline: exchange.deadline,
      requester: exchange.requester,
    };
    await (this.kind === 'lock' ? releaseLock(this.#context, request) : releaseLine(this.#context, this.kind, request));
    return { status: 204 };
  }

  /** For semaphores. */
  async setLimit(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases, 'use');
    const name = nameOf(exchange);
    const { limit } = exchange.body as Schemas['SetSemaphoreLimitRequest'];
    await setLimit(this.#context, { namespace, name, limit }, exchange);
    if (!exchange.allows('read', namespace, { name })) {
      const body: Schemas['LimitedSemaphore'] = { name, limit };
      return { status: 200, body };
    }
    const line = await orUnknown(describeLine(this.#context, { kind: this.kind, namespace, name }, exchange.deadline));
    return { status: 200, body: showLine(line) };
  }

  async listWaiters(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { items, next } = await listWaiters(
      this.#context,
      this.#context.control.until(exchange.deadline),
      { kind: this.kind, namespace, name: nameOf(exchange) },
      pageOf(exchange, PLACE_KEY),
    );
    const body: Schemas['WaiterList'] = { items: items.map(describeWaiter), ...pageTokenOf(next) };
    return { status: 200, body };
  }

  async list(exchange: Exchange): Promise<Answer> {
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { items, next } = await listLines(
      this.#context,
      this.#context.control.until(exchange.deadline),
      this.kind,
      namespace,
      pageOfAllowed(exchange, namespace),
    );
    const body: Schemas['LockList'] = {
      items: items.map(({ name, limit, permitsHeld, holders, holderCount, waiterCount, oldestWaitSince }) => ({
        name,
        ...(limit === undefined ? {} : { limit: shownLimit(limit), permitsHeld }),
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
    const namespace = await namespaceOf(exchange, this.#context.leases);
    const { fencingToken } = exchange.body as Schemas['CheckRequest'];
    const body: Schemas['CheckedToken'] = await checkToken(
      this.#context,
      this.#context.control.until(exchange.deadline),
      { kind: this.kind, namespace, name: nameOf(exchange) },
      fencingToken,
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
    case 'kept':
      return keptPlace(exchange, {
        name,
        position: result.position,
        requestId,
        leaseId: lease.leaseId,
        ttlMs: lease.ttlMs,
        ...token,
      });
    case 'draining':
      throw drainingInPlace(`place in line for "${name}"`);
    case 'client-gone':
      throw leftTheLine(exchange);
    case 'refused':
    case 'rival':
      throw lockHeld(request, result, lease.leaseId);
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
  byPriority,
}: LineView): Schemas['Lock'] & { limit?: number | null | undefined; permitsHeld?: number | undefined } {
  return {
    name,
    ...(limit === undefined ? {} : { limit: shownLimit(limit), permitsHeld }),
    holders: holders.map(describeHolder),
    holderCount,
    waiters: waiters.map(describeWaiter),
    waiterCount,
    ...(byPriority ? { byPriority } : {}),
    ...(lockedUntil === undefined ? {} : { lockedUntil: instant(lockedUntil) }),
  };
}

function permitsOf({ limit, count = 1 }: { limit?: number; count?: number }): AcquireLine['permits'] {
  if (limit !== undefined && count > limit)
    throw new InvalidError('count', count, `at most limit, which is ${limit}`, { limit });
  return { limit, count };
}

/** Of locks only. A hold of one by priority has no lock-delay, and its lease is there before it. */
function priorityOf({ priority, lockDelayMs = 0, lease }: Schemas['AcquireLockRequest']): number | undefined {
  if (priority === undefined) return undefined;
  if (lockDelayMs > 0) throw new InvalidError('lockDelayMs', lockDelayMs, '0 together with priority', { limit: 0 });
  if (lease !== undefined)
    throw new InvalidError(
      'lease',
      lease,
      'absent together with priority: get a lease first, and send its Lease-Token',
    );
  return priority;
}

/** A semaphore without an agreed limit has no permits to give; it is shown as having no limit yet. */
function shownLimit(limit: number): number | null {
  return limit === 0 ? null : limit;
}

function describeHolder(view: ContenderView): Schemas['Holder'] {
  const { reservation } = view;
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
    ...(reservation?.until === undefined ? {} : { leaseId: null, reservation: describeReservation(reservation) }),
  };
}

function describeWaiter(view: WaiterView): Schemas['Waiter'] {
  return {
    ...describeWho(view),
    mode: view.mode,
    ...(view.count === undefined ? {} : { count: view.count }),
    ...(view.priority === undefined ? {} : { priority: view.priority }),
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
