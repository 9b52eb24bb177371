/** `/v1/leases`: the requests about leases, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import { heartbeatMs, type Caller, type Leases, type OpenedLease } from '../../leases/leases.js';
import type { LeaseRecord } from '../../leases/records.js';
import type { Coordination } from '../../recipes/coordination.js';
import { endLease } from '../../recipes/line/delay/end-lease.js';
import { describeClaims, type HeldClaim } from '../../recipes/lease-view/held-claims.js';
import { describeHolds, findHolds, type OwnHold } from '../../recipes/lease-view/holds.js';
import { followLease, type LeaseEvent, type LossReason } from '../../recipes/lease-view/events.js';
import type { HolderObservers } from '../../recipes/line/observer.js';
import { releaseAllMembers } from '../../recipes/pool/release.js';
import {
  findParticipations,
  participationsOf,
  type OwnParticipation,
} from '../../recipes/lease-view/participations.js';
import { lossOf, readNotices, type Notice } from '../../recipes/line/revocation/record.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes, ServerEvent } from '../frame/exchange.js';
import { problemOf } from '../frame/problem.js';
import type { Serving } from './shared/serving.js';
import {
  leaseOf,
  leaseTokenOf,
  namedNamespaceOf,
  namespaceOf,
  pageOfAllowed,
  pageTokenOf,
  tokenRequestIdOf,
} from './shared/subject.js';

type Schemas = components['schemas'];

export function leaseRoutes({ context, recipes }: Serving): Routes {
  const { leases } = context;
  const { observers } = recipes.line;
  return {
    createLease: (exchange) => createLease(leases, exchange),
    heartbeatLease: (exchange) => heartbeatLease(context, exchange),
    heartbeatLeases: (exchange) => heartbeatLeases(context, exchange),
    showLease: (exchange) =>
      exchange.wantsEvents ? watchLease(context, observers, exchange) : showLease(context, exchange),
    watchLease: (exchange) => watchLease(context, observers, exchange),
    endLease: (exchange) => endOwnLease(context, exchange),
    listLeases: (exchange) => listLeases(leases, exchange),
    showLeaseById: (exchange) => showLeaseById(context, exchange),
    endLeaseById: (exchange) => endLeaseById(context, exchange),
  };
}

async function createLease(leases: Leases, exchange: Exchange): Promise<Answer> {
  const body = exchange.body as Schemas['CreateLeaseRequest'];
  const namespace = namedNamespaceOf(exchange, 'use');
  const { ttlMs, label, metadata } = body;
  const requestId = tokenRequestIdOf(exchange, body) || undefined;
  const { lease, leaseToken, expiresAt } = await leases.create(
    { principal: exchange.principal.id, namespace, ttlMs, label, metadata, requestId },
    exchange.deadline,
  );
  const granted: Schemas['GrantedLease'] = {
    leaseId: lease.leaseId,
    leaseToken,
    ttlMs: lease.ttlMs,
    expiresAt: instant(expiresAt),
  };
  return { status: 201, body: granted };
}

async function heartbeatLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  const opened = await open(context, exchange, leaseTokenOf(exchange));
  return { status: 200, body: await heartbeat(context, opened, exchange.deadline) };
}

async function heartbeatLeases(context: Coordination, exchange: Exchange): Promise<Answer> {
  const { leaseTokens } = exchange.body as Schemas['HeartbeatLeasesRequest'];
  const distinct = [...new Set(leaseTokens)];
  const items = await heartbeatAll(context, exchange, await openAll(context, exchange, distinct));
  const byToken = new Map(distinct.map((token, i) => [token, items[i] as Schemas['HeartbeatItem']]));
  const body: Schemas['HeartbeatList'] = {
    items: leaseTokens.map((token) => byToken.get(token) as Schemas['HeartbeatItem']),
  };
  return { status: 200, body };
}

/**
 * Heartbeats are never refused, but tokens that do not open count as requests of their principal. Above the rate limit,
 * tokens that this replica has not opened before are not even tried, or the limit would save nothing.
 */
async function openAll(
  context: Coordination,
  exchange: Exchange,
  tokens: readonly string[],
): Promise<(OpenedLease | Schemas['Problem'])[]> {
  const caller = callerOf(exchange);
  const problem = problemsOf(exchange);
  const opened: (OpenedLease | Schemas['Problem'])[] = [];
  let refused: Schemas['Problem'] | undefined;
  for (const token of tokens) {
    try {
      if (refused !== undefined && context.leases.openKnown(token, caller) === undefined) opened.push(refused);
      else opened.push(await open(context, exchange, token));
    } catch (error) {
      opened.push(problem(error));
      if (error instanceof PosternError && error.code === 'invalid-lease-token') refused ??= beyondLimit(exchange);
    }
  }
  return opened;
}

function beyondLimit(exchange: Exchange): Schemas['Problem'] | undefined {
  try {
    exchange.countRequest();
    return undefined;
  } catch (error) {
    return problemsOf(exchange)(error);
  }
}

async function heartbeatAll(
  context: Coordination,
  exchange: Exchange,
  opened: readonly (OpenedLease | Schemas['Problem'])[],
): Promise<Schemas['HeartbeatItem'][]> {
  const problem = problemsOf(exchange);
  // One answer for all: the lease with the least time must not wait for one whose server is silent.
  const shortestMs = Math.min(...opened.map((each) => (isOpened(each) ? each.lease.ttlMs : Infinity)));
  const deadline = Math.min(exchange.deadline, performance.now() + heartbeatMs(shortestMs));
  return Promise.all(
    opened.map(async (each): Promise<Schemas['HeartbeatItem']> => {
      if (!isOpened(each)) return each;
      try {
        return { status: 200, ...(await heartbeat(context, each, deadline)) };
      } catch (error) {
        return problem(error);
      }
    }),
  );
}

function problemsOf({ traceId }: Exchange): (error: unknown) => Schemas['Problem'] {
  return (error) => problemOf(error, traceId).body as Schemas['Problem'];
}

function callerOf({ principal, namespace }: Exchange): Caller {
  return { principal: principal.id, namespace };
}

function isOpened(item: OpenedLease | Schemas['Problem']): item is OpenedLease {
  return 'stale' in item;
}

async function open({ leases }: Coordination, exchange: Exchange, token: string): Promise<OpenedLease> {
  const opened = await leases.open(token, callerOf(exchange), exchange.deadline);
  exchange.authorize('use', opened.lease.namespace);
  return opened;
}

async function heartbeat(
  { leases, layout }: Coordination,
  opened: OpenedLease,
  deadline: number,
): Promise<Schemas['Heartbeat']> {
  const { leaseId } = opened.lease;
  const { lease, expiresAt, notices, leaseToken } = await leases.heartbeatAndRead(
    opened,
    deadline,
    async (session, synced) =>
      (await session.isAbsent(layout.revocationsOf(leaseId), synced, deadline))
        ? []
        : readNotices(session.until(deadline), layout, leaseId),
  );
  return {
    leaseId: lease.leaseId,
    ttlMs: lease.ttlMs,
    expiresAt: instant(expiresAt),
    revocations: notices.filter(({ state }) => state === 'pending').map(describeRevocation),
    lost: notices.filter(({ state }) => state === 'broken').map((notice) => describeLost(notice, lossOf(notice))),
    ...(leaseToken === undefined ? {} : { leaseToken }),
  };
}

async function showLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  const lease = await leaseOf(exchange, context.leases);
  const { record, paths, expiresAt } = await context.leases.show(lease, exchange.deadline);
  const zk = context.control.until(exchange.deadline);
  const holds = await describeHolds(context, zk, lease, paths);
  const participations = participationsOf(context.layout, lease, paths);
  const claims = await describeClaims(context, zk, lease, paths);
  return { status: 200, body: describeOwnLease(lease, record, { holds, participations, claims }, expiresAt) };
}

async function watchLease(context: Coordination, observers: HolderObservers, exchange: Exchange): Promise<EventStream> {
  const lease = await leaseOf(exchange, context.leases);
  await context.leases.touch(lease, exchange.deadline); // an ended lease is an answer, not a stream
  const { maxMs } = exchange.query as { maxMs?: number };
  return {
    maxMs,
    events: (sink) => {
      let count = 0;
      return followLease(
        context,
        observers,
        lease,
        (event) => {
          count += 1;
          sink.send({ ...describeEvent(lease, event), id: `${lease.leaseId.slice(0, 8)}-${count}` });
        },
        sink.signal,
      );
    },
  };
}

function end(context: Coordination, lease: Lease, exchange: Exchange): Promise<void> {
  return endLease(context, lease, exchange, (zk, onRelease) => releaseAllMembers(context, zk, lease, onRelease));
}

async function endOwnLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  await end(context, await leaseOf(exchange, context.leases), exchange);
  return { status: 204 };
}

async function listLeases(leases: Leases, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, leases, 'admin');
  const { items, next } = await leases.records.list(
    namespace,
    pageOfAllowed(exchange, namespace, 'admin'),
    exchange.deadline,
  );
  const list: Schemas['LeaseList'] = {
    items: items.map((record) => summarize(record, namespace)),
    ...pageTokenOf(next),
  };
  return { status: 200, body: list };
}

async function showLeaseById(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, context.leases, 'admin');
  const leaseId = exchange.params['leaseId'] as string;
  const found = await findLease(context.leases, exchange, namespace, leaseId);
  if (found === undefined)
    throw new PosternError('not-found', `There is no lease "${leaseId}" in namespace "${namespace}".`);
  const zk = context.control.until(exchange.deadline);
  const [holds, participations] = await Promise.all([
    findHolds(context, zk, found.lease),
    findParticipations(context, zk, found.lease),
  ]);
  return { status: 200, body: describeLease(found.lease, found.record, { holds, participations, claims: [] }) };
}

/** Nobody knows whether a missing lease has ended or has never existed: both are 204, so that this can be repeated. */
async function endLeaseById(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = await namespaceOf(exchange, context.leases, 'admin');
  const found = await findLease(context.leases, exchange, namespace, exchange.params['leaseId'] as string);
  if (found !== undefined) await end(context, found.lease, exchange);
  return { status: 204 };
}

async function findLease(
  leases: Leases,
  exchange: Exchange,
  namespace: string,
  leaseId: string,
): Promise<{ record: LeaseRecord; lease: Lease } | undefined> {
  const record = await leases.records.findUpToDate(namespace, leaseId, exchange.deadline);
  const lease = record === undefined ? undefined : await leases.openStored(record.token, exchange.deadline);
  return record === undefined || lease === undefined ? undefined : { record, lease };
}

interface Own {
  holds: readonly OwnHold[];
  participations: readonly OwnParticipation[];
  claims: readonly HeldClaim[];
}

function describeLease(
  lease: Lease,
  record: LeaseRecord | undefined,
  { holds, participations, claims }: Own,
): Schemas['Lease'] {
  return {
    leaseId: lease.leaseId,
    principal: lease.principal,
    namespace: lease.namespace,
    label: lease.label,
    metadata: record?.metadata ?? {},
    ttlMs: lease.ttlMs,
    since: instant(lease.grant.issuedAt),
    holds: [
      ...holds.map(describeOwnHold),
      ...participations.map(describeOwnParticipation),
      ...claims.map(describeOwnClaim),
    ],
  };
}

function describeOwnLease(
  lease: Lease,
  record: LeaseRecord | undefined,
  own: Own,
  expiresAt: number,
): Schemas['OwnLease'] {
  return { ...describeLease(lease, record, own), expiresAt: instant(expiresAt) };
}

function describeOwnParticipation({ transactionId, participant, hasVoted }: OwnParticipation): Schemas['Hold'] {
  return { kind: 'transaction', name: transactionId, held: true, participant, hasVoted };
}

function describeOwnClaim({ queue, claimId, message, requestId, since, until }: HeldClaim): Schemas['Hold'] {
  return {
    kind: 'claim',
    name: queue,
    held: true,
    claimId,
    message,
    ...(requestId === '' ? {} : { requestId }),
    since: instant(since),
    ...(until === undefined ? {} : { claimedUntil: instant(until) }),
  };
}

function describeOwnHold(hold: OwnHold): Schemas['Hold'] {
  return {
    kind: hold.kind,
    name: hold.name,
    ...(hold.member === undefined ? {} : { member: hold.member }),
    held: hold.held,
    ...(hold.held ? { holdId: hold.holdId } : {}),
    ...(hold.requestId === '' ? {} : { requestId: hold.requestId }),
    fencingToken: hold.fencingToken,
    since: instant(hold.since),
  };
}

function describeEvent(lease: Lease, event: LeaseEvent): ServerEvent {
  switch (event.event) {
    case 'state':
      return {
        event: 'state',
        data: describeOwnLease(lease, event.record, event, event.expiresAt),
      };
    case 'granted':
    case 'turn':
      return { event: event.event, data: describeOwnHold(event.hold) };
    case 'lost':
      return {
        event: 'lost',
        data: describeLost(event.hold, event.reason),
      };
    case 'revocation-requested':
      return { event: 'revocation-requested', data: describeRevocation(event.notice) };
    case 'expired':
      return { event: 'expired', data: {} };
  }
}

function describeRevocation({ kind, name, holdId, reason, breakAt }: Notice): Schemas['Revocation'] {
  return {
    kind,
    name,
    holdId,
    ...(reason === undefined ? {} : { reason }),
    ...(breakAt === undefined ? {} : { breakAt: instant(breakAt) }),
  };
}

function describeLost(
  { kind, name, member, holdId }: Pick<OwnHold, 'kind' | 'name' | 'member' | 'holdId'>,
  reason: LossReason,
): Schemas['LostHold'] {
  return { kind, name, ...(member === undefined ? {} : { member }), holdId, reason };
}

function summarize(record: LeaseRecord, namespace: string): Schemas['LeaseSummary'] {
  return {
    leaseId: record.leaseId,
    principal: record.principal,
    namespace,
    label: record.label,
    ttlMs: record.ttlMs,
    since: instant(record.createdAt),
  };
}
