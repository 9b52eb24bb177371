/** `/v1/reservations` and what reserves a lock, in the words of the contract. */
import { randomUUID } from 'node:crypto';
import { InvalidError, PosternError } from '../../../errors.js';
import type { OpenedReservation } from '../../../leases/reservation-token.js';
import type { Coordination } from '../../../recipes/coordination.js';
import type { NotGranted } from '../../../recipes/line/acquire.js';
import type { ReservationBounds } from '../../../recipes/reservation/bounds.js';
import { extend, release } from '../../../recipes/reservation/change.js';
import { listReservations } from '../../../recipes/reservation/list.js';
import { holdOf, type StandingRecord } from '../../../recipes/reservation/reservation.js';
import { reserve, type ReserveLock } from '../../../recipes/reservation/reserve.js';
import { instant } from '../../../time.js';
import type { components } from '../../contract/contract.js';
import type { Answer, Exchange, Routes } from '../../frame/exchange.js';
import { lockHeld } from '../shared/lock-held.js';
import type { Building } from '../shared/serving.js';
import { namedNamespaceOf, pageOfAllowed, pageTokenOf, tokenRequestIdOf } from '../shared/subject.js';
import { drainingInPlace, keptPlace, leftTheLine } from '../shared/wait-ended.js';

type Schemas = components['schemas'];

export function reservationRoutes({ context, recipes }: Building): Routes {
  const { bounds } = recipes.reservation;
  return {
    listReservations: (exchange) => list(context, exchange),
    reserveLock: (exchange) => reserveLock(context, bounds, exchange),
    extendReservation: (exchange) => extendReservation(context, bounds, exchange),
    releaseReservation: (exchange) => releaseReservation(context, exchange),
  };
}

async function reserveLock(context: Coordination, bounds: ReservationBounds, exchange: Exchange): Promise<Answer> {
  const body = exchange.body as Schemas['ReserveLockRequest'];
  const { forMs, owner, reason, waitMs = 0, keepPlace = false } = body;
  checkLength(forMs, bounds);
  const requestId = tokenRequestIdOf(exchange, body);
  const request: ReserveLock = {
    namespace: namedNamespaceOf(exchange, 'use'),
    principal: exchange.principal.id,
    name: exchange.params['name'] as string,
    requestId: requestId === '' ? randomUUID() : requestId,
    // With a place to come back to, the answer says under which requestId.
    isAnonymous: requestId === '' && !keepPlace,
    owner,
    reason,
    forMs,
    waitMs,
    keepPlace,
    receivedAt: exchange.receivedAt,
    hardDeadline: exchange.deadline + waitMs,
    requester: exchange.requester,
  };
  const result = await reserve(context, bounds, request);
  if (!result.held) return withoutReservation(request, result, exchange);
  const { record, id, waitedMs, alreadyHeld, undelivered } = result;
  const claim = { ...request, id, fencingToken: record.standing.czxid };
  const answer: Schemas['ReservedLock'] = {
    name: request.name,
    held: true,
    owner: record.owner,
    reason: record.reason ?? null,
    reservedUntil: instant(record.standing.until),
    reservationToken: await context.reservationTokens.seal(claim, exchange.deadline + waitMs),
    ...holdOf(record),
    requestId: request.requestId,
    waitedMs,
    alreadyHeld,
  };
  return { status: 200, body: answer, undelivered };
}

export function withoutReservation(
  request: Pick<ReserveLock, 'name' | 'requestId'>,
  result: NotGranted,
  exchange: Exchange,
): Answer {
  const { name, requestId } = request;
  switch (result.why) {
    case 'kept':
      return keptPlace(exchange, { name, position: result.position, requestId });
    case 'draining':
      throw drainingInPlace(`place in line for "${name}"`);
    case 'client-gone':
      throw leftTheLine(exchange);
    case 'refused':
    case 'rival':
      throw lockHeld({ kind: 'lock', name }, result);
  }
}

async function extendReservation(
  context: Coordination,
  bounds: ReservationBounds,
  exchange: Exchange,
): Promise<Answer> {
  const { reservationToken, forMs } = exchange.body as Schemas['ExtendReservationRequest'];
  checkLength(forMs, bounds);
  const { claim, stale } = await openedOf(context, exchange, reservationToken);
  const extended = await extend(context, claim, forMs, exchange);
  const body: Schemas['ExtendedReservation'] = {
    ...describe(extended),
    ...(stale && { reservationToken: await context.reservationTokens.seal(claim, exchange.deadline) }),
  };
  return { status: 200, body };
}

async function releaseReservation(context: Coordination, exchange: Exchange): Promise<Answer> {
  const { reservationToken } = exchange.body as Schemas['ReleaseReservationRequest'];
  const { claim } = await openedOf(context, exchange, reservationToken);
  await release(context, claim, exchange);
  return { status: 204 };
}

async function list(context: Coordination, exchange: Exchange): Promise<Answer> {
  const namespace = namedNamespaceOf(exchange, 'read');
  const page = pageOfAllowed(exchange, namespace);
  const { control, layout } = context;
  if (exchange.query['consistency'] !== 'stale')
    await control.sync(layout.reservationsOf(namespace), exchange.deadline);
  const { items, next } = await listReservations(context, namespace, exchange.deadline, page);
  const body: Schemas['ReservationList'] = { items: items.map(describe), ...pageTokenOf(next) };
  return { status: 200, body };
}

/** The token, opened, once the caller's right to this lock is checked. */
async function openedOf(context: Coordination, exchange: Exchange, token: string): Promise<OpenedReservation> {
  const namespace = namedNamespaceOf(exchange, 'use');
  const opened = await context.reservationTokens.open(token, exchange.principal.id, exchange.deadline);
  const { claim } = opened;
  const name = exchange.params['name'] as string;
  if (claim.namespace === namespace && claim.name === name) return opened;
  throw new PosternError(
    'invalid-reservation-token',
    `The reservation token belongs to lock "${claim.name}" in namespace "${claim.namespace}", not to "${name}" in "${namespace}".`,
  );
}

function checkLength(forMs: number, { limits: { maxReservationMs } }: ReservationBounds): void {
  if (forMs > maxReservationMs)
    throw new InvalidError('forMs', forMs, `at most ${maxReservationMs}, as the operator has set`, {
      maxReservationMs,
    });
}

function describe(record: StandingRecord): Schemas['Reservation'] {
  const { name, owner, reason, principal, standing } = record;
  return {
    name,
    owner,
    reason: reason ?? null,
    principal,
    since: instant(standing.since),
    reservedUntil: instant(standing.until),
    ...holdOf(record),
  };
}
