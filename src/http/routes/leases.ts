/** `/v1/leases`: the requests about leases, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { LeaseRecord, Leases } from '../../leases/leases.js';
import type { Coordination } from '../../recipes/coordination.js';
import { endLease } from '../../recipes/end-lease.js';
import { describeClaims, type HeldClaim } from '../../recipes/queue/held-claims.js';
import { describeHolds, findHolds, type OwnHold } from '../../recipes/holds.js';
import { followLease, type LeaseEvent } from '../../recipes/lease-events.js';
import type { LineObservers } from '../../recipes/line-observer.js';
import { findParticipations, participationsOf, type OwnParticipation } from '../../recipes/participations.js';
import { readNotices, type Notice } from '../../recipes/revocation-record.js';
import { instant } from '../../time.js';
import type { components } from '../contract.js';
import type { Answer, EventStream, Exchange, Routes, ServerEvent } from '../exchange.js';
import { problemOf } from '../problem.js';
import { leaseOf, leaseTokenOf, namespaceOf, pageOfAllowed, pageTokenOf, requestIdOf } from './subject.js';

type Schemas = components['schemas'];

export function leaseRoutes(context: Coordination, observers: LineObservers): Routes {
  const { leases } = context;
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
  const namespace = namespaceOf(exchange, 'use');
  const { ttlMs, label, metadata } = body;
  const requestId = requestIdOf(exchange, body) || undefined;
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
  return { status: 200, body: await heartbeat(context, exchange, leaseTokenOf(exchange), exchange.namespace) };
}

async function heartbeatLeases(context: Coordination, exchange: Exchange): Promise<Answer> {
  const { leaseTokens } = exchange.body as Schemas['HeartbeatLeasesRequest'];
  const items = await Promise.all(
    leaseTokens.map(async (token): Promise<Schemas['HeartbeatItem']> => {
      try {
        return { status: 200, ...(await heartbeat(context, exchange, token, exchange.namespace)) };
      } catch (error) {
        return problemOf(error, exchange.traceId).body as Schemas['Problem'];
      }
    }),
  );
  return { status: 200, body: { items } satisfies Schemas['HeartbeatList'] };
}

async function heartbeat(
  { leases, layout }: Coordination,
  exchange: Exchange,
  token: string,
  namespace: string | undefined,
): Promise<Schemas['Heartbeat']> {
  const caller = { principal: exchange.principal.id, namespace };
  const opened = await leases.open(token, caller, exchange.deadline);
  exchange.authorize('use', opened.lease.namespace);
  const { lease, expiresAt, notices, leaseToken } = await leases.heartbeatAndRead(
    opened,
    exchange.deadline,
    (session, { leaseId }) => readNotices(session, layout, leaseId, exchange.deadline),
  );
  return {
    leaseId: lease.leaseId,
    ttlMs: lease.ttlMs,
    expiresAt: instant(expiresAt),
    revocations: notices.filter(({ state }) => state === 'pending').map(describeRevocation),
    lost: notices.filter(({ state }) => state === 'broken').map((notice) => describeLost(notice, 'broken')),
    ...(leaseToken === undefined ? {} : { leaseToken }),
  };
}

async function showLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  const lease = await leaseOf(exchange, context.leases);
  const { record, paths, expiresAt } = await context.leases.show(lease, exchange.deadline);
  const holds = await describeHolds(context, lease, paths, exchange.deadline);
  const participations = participationsOf(context.layout, lease, paths);
  const claims = await describeClaims(context, lease, paths, exchange.deadline);
  return { status: 200, body: describeOwnLease(lease, record, { holds, participations, claims }, expiresAt) };
}

async function watchLease(context: Coordination, observers: LineObservers, exchange: Exchange): Promise<EventStream> {
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

async function endOwnLease(context: Coordination, exchange: Exchange): Promise<Answer> {
  await endLease(context, await leaseOf(exchange, context.leases), exchange.deadline);
  return { status: 204 };
}

async function listLeases(leases: Leases, exchange: Exchange): Promise<Answer> {
  const namespace = namespaceOf(exchange, 'admin');
  const { items, next } = await leases.list(namespace, pageOfAllowed(exchange, namespace, 'admin'), exchange.deadline);
  const list: Schemas['LeaseList'] = {
    items: items.map((record) => summarize(record, namespace)),
    ...pageTokenOf(next),
  };
  return { status: 200, body: list };
}

async function showLeaseById(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = namespaceOf(exchange, 'admin');
  const leaseId = exchange.params['leaseId'] as string;
  const found = await findLease(context.leases, exchange, namespace, leaseId);
  if (found === undefined)
    throw new PosternError('not-found', `There is no lease "${leaseId}" in namespace "${namespace}".`);
  const [holds, participations] = await Promise.all([
    findHolds(context, found.lease, exchange.deadline),
    findParticipations(context, found.lease, exchange.deadline),
  ]);
  return { status: 200, body: describeLease(found.lease, found.record, { holds, participations, claims: [] }) };
}

/** Whether a lease that is not there has ended or has never been, nobody knows: both are 204, so that this can be repeated. */
async function endLeaseById(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = namespaceOf(exchange, 'admin');
  const found = await findLease(context.leases, exchange, namespace, exchange.params['leaseId'] as string);
  if (found !== undefined) await endLease(context, found.lease, exchange.deadline);
  return { status: 204 };
}

async function findLease(
  leases: Leases,
  exchange: Exchange,
  namespace: string,
  leaseId: string,
): Promise<{ record: LeaseRecord; lease: Lease } | undefined> {
  const record = await leases.findUpToDate(namespace, leaseId, exchange.deadline);
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
      return { event: 'granted', data: describeOwnHold(event.hold) };
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
  reason: 'broken' | 'missing',
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
