/** `/v1/leases`: the requests about leases, in the words of the contract. */
import { PosternError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { Leases } from '../../leases/leases.js';
import type { LeaseRecord, LeaseSummary } from '../../leases/records.js';
import type { Coordination } from '../../recipes/coordination.js';
import { endLease } from '../../recipes/line/delay/end-lease.js';
import { describeClaims, type HeldClaim } from '../../recipes/lease-view/held-claims.js';
import { describeHolds, findHolds } from '../../recipes/lease-view/holds.js';
import type { OwnHold } from '../../recipes/lease-view/own-hold.js';
import { followLease, type LeaseEvent } from '../../recipes/lease-view/events.js';
import type { HolderObservers } from '../../recipes/line/observer.js';
import { releaseAllMembers } from '../../recipes/pool/release.js';
import {
  findParticipations,
  participationsOf,
  type OwnParticipation,
} from '../../recipes/lease-view/participations.js';
import { instant } from '../../time.js';
import type { components } from '../contract/contract.js';
import type { Answer, EventStream, Exchange, Routes, ServerEvent } from '../frame/exchange.js';
import { describeLost, describeRevocation, heartbeatLease, heartbeatMany } from './heartbeats.js';
import type { Serving } from './shared/serving.js';
import {
  leaseOf,
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
    heartbeatLeases: heartbeatMany({ known: () => context, of: () => context }),
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
  const found = await context.leases.find(namespace, leaseId, exchange.deadline);
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
  const found = await context.leases.find(namespace, exchange.params['leaseId'] as string, exchange.deadline);
  if (found !== undefined) await end(context, found.lease, exchange);
  return { status: 204 };
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

function summarize(record: LeaseSummary, namespace: string): Schemas['LeaseSummary'] {
  return {
    leaseId: record.leaseId,
    principal: record.principal,
    namespace,
    label: record.label,
    ttlMs: record.ttlMs,
    since: instant(record.createdAt),
  };
}
