/**
 * Popping and claiming, also from queues that do not exist yet: an unknown queue counts as empty, and a waiting
 * consumer is served as soon as somebody pushes to it.
 */
import { InvalidError } from '../../../errors.js';
import { callerUntil, endReason, type Caller } from '../../../time.js';
import { orUnknown } from '../../behind-write.js';
import type { Coordination } from '../../coordination.js';
import { keptAlive } from '../../waiting/kept-alive.js';
import { withNewLease, type NewLease, type WithLease } from '../../with-lease.js';
import type { ClaimTerms, Delivered, Reserve } from './demand.js';
import { claimPath } from './entry.js';
import { findClaims } from './own-claims.js';
import { groupHash } from '../paths.js';
import type { Queue } from '../queue.js';
import { QueueGoneError } from '../gone.js';
import type { Queues } from '../queues.js';
import { takeBack } from './take.js';

/** Where only the length of a name matters. */
const LONGEST_GROUP = groupHash('');

export interface ConsumeRequest {
  namespace: string;
  name: string;
  /** Messages at most. */
  max: number;
  /** Of a claim; undefined: pop. */
  claim: ClaimTerms | undefined;
  waitMs: number;
  /** Arrival of the request, monotonic. */
  receivedAt: number;
  /** An answer is due by then, monotonic. */
  hardDeadline: number;
  caller: Caller;
  /** As in `DemandOptions`. */
  reserve: Reserve;
}

export interface Consumed {
  items: Delivered[];
  /** Takes claims back because the client was not told of them. */
  undelivered: () => void;
}

export const NOTHING: Consumed = { items: [], undelivered: () => undefined };

/** @throws InvalidError, LeaseExpiredError, NoReplyError */
export async function consume(context: Coordination, queues: Queues, request: ConsumeRequest): Promise<Consumed> {
  const { claim, caller, reserve } = request;
  if (claim === undefined) return take(context, queues, request, caller);
  const { lease, requestId } = claim;
  if (requestId !== '') {
    const queue = await queues.find(request.namespace, request.name, request.hardDeadline);
    const known =
      queue === undefined
        ? []
        : await findClaims(queue, lease, requestId, { deadline: request.hardDeadline, requester: caller, reserve });
    // An earlier answer may have told the client of them: they stay, whatever becomes of this one.
    if (known.length > 0) return { items: known, undelivered: () => undefined };
  } else if (request.waitMs === 0) {
    return take(context, queues, request, caller); // the claim itself shows whether the lease lives
  }
  return whileAlive(context, request, (bound) => take(context, queues, request, bound));
}

/** A claim whose lease is made in the same request. */
export interface FirstClaim extends Omit<ConsumeRequest, 'claim'> {
  claim: Omit<ClaimTerms, 'lease'>;
}

/** With `expiresAt`, epoch ms: the lease lives at least until then. */
export type FirstClaimed = Consumed & { readonly expiresAt: number };

/**
 * As `consume`, with a lease that is made for it, or was by an earlier attempt of this request.
 * @throws as `consume` and `withNewLease`
 */
export async function claimWithLease(
  context: Coordination,
  queues: Queues,
  newLease: NewLease,
  request: FirstClaim,
): Promise<WithLease<FirstClaimed>> {
  const { name, claim, hardDeadline, caller } = request;
  const made = await withNewLease<FirstClaimed>(context, {
    newLease,
    subject: ['queue', name],
    requestId: claim.requestId,
    deadline: hardDeadline,
    requester: caller,
    work: async (lease) => {
      const consumed = await consume(context, queues, { ...request, claim: { ...claim, lease } });
      if (consumed.items.length === 0) return { ...consumed, expiresAt: 0 };
      return { ...consumed, expiresAt: await orUnknown(context.leases.touch(lease, hardDeadline)) };
    },
    isInVain: ({ items }) => items.length === 0,
    endsWhenGone: true,
  });
  const { result } = made;
  return { ...made, result: { ...result, undelivered: () => made.undelivered(result.undelivered) } };
}

/** An open wait is a heartbeat (protocol C4), and ends with the lease. */
export async function whileAlive(
  { leases }: Coordination,
  { claim, caller, hardDeadline, waitMs }: Pick<ConsumeRequest, 'claim' | 'caller' | 'hardDeadline' | 'waitMs'>,
  work: (caller: Caller) => Promise<Consumed>,
): Promise<Consumed> {
  const { lease } = claim as ClaimTerms;
  await leases.touch(lease, hardDeadline);
  if (waitMs === 0) return work(caller);
  return keptAlive(leases, lease, caller.signal, (signal) => work(callerUntil(caller, signal)));
}

async function take(context: Coordination, queues: Queues, request: ConsumeRequest, caller: Caller): Promise<Consumed> {
  const { namespace, name, max, claim, receivedAt, waitMs, hardDeadline, reserve } = request;
  for (;;) {
    const queue = await queues.find(namespace, name, hardDeadline);
    if (queue === undefined) {
      if (await appeared(queues, request, caller)) continue;
      // Nothing was asked under the lease. A consumer that polls from before the first push on lives by its claims, as
      // at an empty queue.
      if (claim !== undefined && waitMs === 0) await context.leases.touch(claim.lease, hardDeadline);
      return NOTHING;
    }
    checkClaimMs(queue, claim?.claimMs);
    const room = claim === undefined ? max : await roomFor(context, queue.paths, claim, max, hardDeadline);
    try {
      return consumed(
        queue,
        claim,
        await queue.dispatcher.take({ max: room, claim, receivedAt, waitMs, hardDeadline, caller, reserve }),
      );
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queues.reopen(queue, hardDeadline);
    }
  }
}

/**
 * How many messages of those that are asked for the lease may claim. Asked before it is its turn: a claim that is
 * refused then holds others up.
 */
export function roomFor(
  { leases }: Coordination,
  paths: Queue['paths'],
  { lease }: ClaimTerms,
  max: number,
  deadline: number,
): Promise<number> {
  const path = claimPath(paths.message({ priority: 0, segment: 0, sequence: 0, expiresAt: 0, group: LONGEST_GROUP }));
  return leases.sessions.useRepeatedly(
    lease,
    deadline,
    async (session) => (await session.owned?.room('claims', path, max, deadline)) ?? max,
  );
}

export function consumed(queue: Queue, claim: ClaimTerms | undefined, items: Delivered[]): Consumed {
  const undelivered = (): void => {
    if (claim !== undefined) takeBack(queue, items);
  };
  return { items, undelivered };
}

/** @throws InvalidError when a claim of this queue may not last so long */
export function checkClaimMs({ name, config: { maxClaimMs } }: Queue, claimMs: number | undefined): void {
  if (claimMs === undefined || maxClaimMs === undefined || claimMs <= maxClaimMs) return;
  throw new InvalidError('claimMs', claimMs, `at most ${maxClaimMs}, the maxClaimMs of queue "${name}"`, {
    maxClaimMs,
  });
}

/** Waits for a queue of that name. @returns false when the wait is over first */
export function appeared(
  queues: Queues,
  {
    namespace,
    name,
    waitMs,
    receivedAt,
    hardDeadline,
  }: Pick<ConsumeRequest, 'namespace' | 'name' | 'waitMs' | 'receivedAt' | 'hardDeadline'>,
  caller: Caller,
): Promise<boolean> {
  const remaining = receivedAt + waitMs - performance.now();
  if (remaining <= 0) return Promise.resolve(false);
  const { signal } = caller;
  if (endReason(signal) !== undefined) return Promise.resolve(false);
  return new Promise((resolve) => {
    let cancel = (): void => undefined;
    let over = false;
    const finish = (result: boolean): void => {
      over = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      cancel();
      resolve(result);
    };
    const onAbort = (): void => finish(false);
    const timer = setTimeout(() => finish(false), remaining);
    signal.addEventListener('abort', onAbort, { once: true });
    queues
      .appearance(namespace, name, () => finish(true), hardDeadline)
      .then((watch) => {
        if (watch === undefined) finish(true);
        else if (over) watch.cancel();
        else cancel = () => watch.cancel();
      })
      .catch(() => finish(true)); // looking the queue up says what is wrong
  });
}
