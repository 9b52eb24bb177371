/** `/v1/pools`: the requests about pools, in the words of the contract. */
import { InvalidError, PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { NotGranted } from '../../recipes/line/acquire.js';
import { acquireMembers, type Acquired, type AcquireMembers } from '../../recipes/pool/acquire.js';
import type { Member, PoolConfig, PoolRef } from '../../recipes/pool/pool.js';
import type { Pools } from '../../recipes/pool/pools.js';
import { releaseMembers } from '../../recipes/pool/release.js';
import type { PoolView } from '../../recipes/pool/state.js';
import { acquireMembersWithLease } from '../../recipes/pool/with-lease.js';
import { orUnknown } from '../../recipes/behind-write.js';
import type { Coordination } from '../../recipes/coordination.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, Exchange, Routes } from '../frame/exchange.js';
import { newLeaseOf } from './shared/one-call.js';
import type { Building } from './shared/serving.js';
import { StateRoutes } from './shared/state-routes.js';
import { leaseOf, namespaceOf, pageOfAllowed, pageTokenOf, requestIdOf } from './shared/subject.js';
import { drainingInPlace, keptPlace, leftTheLine } from './shared/wait-ended.js';

type Schemas = components['schemas'];

export function poolRoutes({ watchables, context, recipes, config }: Building): Routes {
  const { pools } = recipes.pool;
  const state = new StateRoutes<PoolRef, PoolView, PoolView>(context, {
    what: 'the pool',
    observers: pools.observers,
    subject: (namespace, name) => pools.ref(namespace, name),
    read: (ref, zk) => pools.read(ref, zk),
    etagOf: ({ etag }) => etag,
    show: (view, ref) => ({ body: present(view, ref) }),
    event: (view, { name }) => describe(name, view) ?? null,
    inUse: ({ pool }) => pool !== undefined,
  });
  watchables.set('pool', state);
  return {
    putPool: (exchange) => put(context, pools, config.maxPoolMembers, exchange),
    deletePool: async (exchange) => {
      const namespace = await namespaceOf(exchange, context.leases, 'use');
      await pools.remove(pools.ref(namespace, nameOf(exchange)), exchange);
      return { status: 204 };
    },
    acquireMembers: (exchange) => acquire(context, pools, exchange),
    releaseMembers: (exchange) => release(context, pools, exchange),
    showPool: (exchange) => state.show(exchange),
    watchPool: (exchange) => state.watch(exchange),
    listPools: (exchange) => list(context, pools, exchange),
  };
}

async function put({ leases }: Coordination, pools: Pools, maxMembers: number, exchange: Exchange): Promise<Answer> {
  const config = configOf(exchange.body as Schemas['PutPoolRequest'], maxMembers);
  const namespace = await namespaceOf(exchange, leases, 'use');
  const name = nameOf(exchange);
  const ref = pools.ref(namespace, name);
  const made = await pools.put(ref, config, exchange);
  const status = made ? 201 : 200;
  if (!exchange.allows('read', namespace, { name })) {
    const body: Schemas['WrittenPool'] = { name };
    return { status, body };
  }
  return { status, body: present(await orUnknown(pools.readLatest(ref, exchange.deadline)), ref) };
}

function configOf({ of, members, quarantineMs = 0 }: Schemas['PutPoolRequest'], maxMembers: number): PoolConfig {
  if ((of === undefined) === (members === undefined))
    throw new InvalidError(
      'of',
      of,
      members === undefined ? 'given, or members in its place' : 'left out with members',
    );
  const [field, size] = members === undefined ? (['of', of ?? 0] as const) : (['members', members.length] as const);
  if (size > maxMembers)
    throw new InvalidError(field, size, `at most ${maxMembers} (POSTERN_MAX_POOL_MEMBERS)`, {
      maxPoolMembers: maxMembers,
    });
  if (members === undefined) return { quarantineMs, of: of ?? 0 };
  const ids = new Set<string>();
  for (const [i, { id }] of members.entries()) {
    if (ids.has(id)) throw new InvalidError(`members.${i}.id`, id, 'the id of one member only');
    ids.add(id);
  }
  return {
    quarantineMs,
    members: members.map(({ id, labels = [], drain = false, data }): Member => ({
      id,
      labels,
      drained: drain,
      ...(data !== undefined && { data }),
    })),
  };
}

async function acquire(context: Coordination, pools: Pools, exchange: Exchange): Promise<Answer> {
  const body = (exchange.body ?? {}) as Schemas['AcquireMembersRequest'];
  if (body.lease === undefined) {
    const lease = await leaseOf(exchange, context.leases);
    const asked = askedOf(exchange, pools, body, lease);
    return answerAcquire(exchange, asked, { lease }, await acquireMembers(context, lease, asked));
  }
  const newLease = newLeaseOf(exchange, body, body.lease);
  const asked = askedOf(exchange, pools, body, newLease);
  const { result, ...granted } = await acquireMembersWithLease(context, newLease, asked);
  return answerAcquire(exchange, asked, granted, result);
}

function askedOf(
  exchange: Exchange,
  pools: Pools,
  body: Schemas['AcquireMembersRequest'],
  { namespace, label = '' }: { namespace: string; label: string | undefined },
): AcquireMembers {
  const { count = 1, labels = [], prefer = 'any', waitMs = 0, keepPlace = false } = body;
  return {
    ref: pools.ref(namespace, nameOf(exchange)),
    requestId: requestIdOf(exchange, body),
    count,
    labels,
    owner: ownerOf(body, prefer, label),
    waitMs,
    keepPlace,
    receivedAt: exchange.receivedAt,
    hardDeadline: exchange.deadline + waitMs,
    requester: exchange.requester,
  };
}

/** @param granted with the token of a lease that was made in the same request */
function answerAcquire(
  exchange: Exchange,
  { ref: { name }, requestId }: AcquireMembers,
  { lease: { leaseId, ttlMs }, leaseToken }: { lease: Lease; leaseToken?: string },
  acquired: Acquired | NotGranted,
): Answer {
  const token = leaseToken === undefined ? {} : { leaseToken };
  if (!acquired.held) {
    const { why, position } = acquired;
    if (why === 'kept') return keptPlace(exchange, { name, position, requestId, leaseId, ttlMs, ...token });
    throw refusal(exchange, name, why, position);
  }
  const { members, waitedMs, alreadyHeld, expiresAt, undelivered } = acquired;
  const { holdId, fencingToken } = acquired.hold;
  const answer: Schemas['AcquiredMembers'] = {
    name,
    held: true,
    members: members.map(({ id, data }) => ({ id, ...(data !== undefined && { data }) })),
    holdId,
    fencingToken,
    requestId,
    waitedMs,
    alreadyHeld,
    leaseId,
    ttlMs,
    expiresAt: instant(expiresAt),
    ...token,
  };
  return { status: 200, body: answer, undelivered };
}

/** @returns empty: nothing is remembered to anybody */
function ownerOf({ owner }: Schemas['AcquireMembersRequest'], prefer: 'same' | 'any', label: string): string {
  if (prefer === 'any') {
    if (owner === undefined) return '';
    throw new InvalidError('owner', owner, 'left out unless prefer is "same"');
  }
  const name = owner ?? label;
  if (name !== '') return name;
  throw new InvalidError('owner', owner, 'given with prefer "same", unless the lease has a label');
}

function refusal(exchange: Exchange, name: string, why: NotGranted['why'], position: number): PosternError {
  if (why === 'draining') return drainingInPlace(`place in line for "${name}"`);
  if (why === 'client-gone') return leftTheLine(exchange);
  return new PosternError(
    'lock-held',
    `Pool "${name}" had too few free members, and they did not become free in time. The place in line was given up.`,
    { members: { name, position } },
  );
}

async function release(context: Coordination, pools: Pools, exchange: Exchange): Promise<Answer> {
  const body = (exchange.body ?? {}) as Schemas['ReleaseLockRequest'];
  const lease = await leaseOf(exchange, context.leases);
  await releaseMembers(context, {
    ref: pools.ref(lease.namespace, nameOf(exchange)),
    lease,
    holdId: body.holdId,
    requestId: requestIdOf(exchange, body),
    deadline: exchange.deadline,
    requester: exchange.requester,
  });
  return { status: 204 };
}

async function list({ leases }: Coordination, pools: Pools, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, leases);
  const isStale = exchange.query['consistency'] === 'stale';
  const page = pageOfAllowed(exchange, namespace);
  const { items, next } = await pools.list(namespace, page, isStale, exchange.deadline);
  const body: Schemas['PoolList'] = { items: [...items], ...pageTokenOf(next) };
  return { status: 200, body };
}

function present(view: PoolView, { name, namespace }: PoolRef): Schemas['Pool'] {
  const shown = describe(name, view);
  if (shown !== undefined) return shown;
  throw new PosternError('not-found', `There is no pool "${name}" in namespace "${namespace}".`);
}

function describe(name: string, view: PoolView): Schemas['Pool'] | undefined {
  const { pool, total, free, heldCount, restingCount, waiterCount, holds, resting } = view;
  if (pool === undefined) return undefined;
  return {
    name,
    total,
    quarantineMs: pool.quarantineMs,
    ...(pool.of !== undefined && { of: pool.of }),
    ...(pool.members !== undefined && { members: pool.members.map(describeMember) }),
    free,
    heldCount,
    restingCount,
    waiterCount,
    held: holds.map(({ member, holdId, fencingToken, leaseId, principal, label, owner, since }) => ({
      id: member,
      holdId,
      fencingToken,
      leaseId,
      principal,
      label,
      owner: owner === '' ? null : owner,
      since: instant(since),
    })),
    resting: resting.map(({ member, until }) => ({ id: member, until: until === undefined ? null : instant(until) })),
  };
}

function describeMember({ id, labels, drained, data }: Member): Schemas['PoolMember'] {
  return {
    id,
    labels: [...labels],
    drain: drained,
    ...(data !== undefined && { data }),
  };
}

function nameOf(exchange: Exchange): string {
  return exchange.params['name'] as string;
}
