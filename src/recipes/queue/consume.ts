/**
 * Popping and claiming, for queues that may not be there yet: an unknown queue is an empty one, and who waits at it is served as soon as
 * somebody pushes to it.
 */
import { InvalidError, LeaseExpiredError } from '../../errors.js';
import { endReason } from '../../time.js';
import type { Coordination } from '../coordination.js';
import type { ClaimTerms, Delivered } from './demand.js';
import { findClaims } from './own-claims.js';
import type { Queue } from './queue.js';
import { QueueGoneError } from './queue-gone.js';
import type { Queues } from './queues.js';
import { takeBack } from './take-claims.js';

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
  signal: AbortSignal;
}

export interface Consumed {
  items: Delivered[];
  /** Takes claims back because the client was not told of them. */
  undelivered: () => void;
}

const TOUCHES_PER_TTL = 3;
const BACKGROUND_MS = 10_000;

/** @throws InvalidError, LeaseExpiredError, NoReplyError */
export async function consume(context: Coordination, queues: Queues, request: ConsumeRequest): Promise<Consumed> {
  const { claim, signal } = request;
  if (claim === undefined) return take(queues, request, signal);
  const { lease, requestId } = claim;
  if (requestId !== '') {
    const queue = await queues.find(request.namespace, request.name, request.hardDeadline);
    const known = queue === undefined ? [] : await findClaims(queue, lease, requestId, request.hardDeadline);
    // An earlier answer may have told the client of them: they stay, whatever becomes of this one.
    if (known.length > 0) return { items: known, undelivered: () => undefined };
  } else if (request.waitMs === 0) {
    return take(queues, request, signal); // the claim itself shows whether the lease lives
  }
  return whileAlive(context, request, (bounds) => take(queues, request, bounds));
}

/** An open wait is a heartbeat (protocol C4), and ends with the lease. */
async function whileAlive(
  { leases }: Coordination,
  { claim, signal, hardDeadline, waitMs }: ConsumeRequest,
  work: (signal: AbortSignal) => Promise<Consumed>,
): Promise<Consumed> {
  const { lease } = claim as ClaimTerms;
  await leases.touch(lease, hardDeadline);
  if (waitMs === 0) return work(signal);
  const ended = new AbortController();
  const everyMs = lease.ttlMs / TOUCHES_PER_TTL;
  let expired: LeaseExpiredError | undefined;
  const touch = setInterval(() => {
    leases.touch(lease, performance.now() + 2 * everyMs).catch((error: unknown) => {
      if (!(error instanceof LeaseExpiredError)) return; // the next touch is due before the lease ends
      expired = error;
      ended.abort('client-gone');
    });
  }, everyMs);
  const onAbort = (): void => ended.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const result = await work(ended.signal);
    if (expired !== undefined && result.items.length === 0) throw expired;
    return result;
  } finally {
    clearInterval(touch);
    signal.removeEventListener('abort', onAbort);
  }
}

async function take(queues: Queues, request: ConsumeRequest, signal: AbortSignal): Promise<Consumed> {
  const { namespace, name, max, claim, receivedAt, waitMs, hardDeadline } = request;
  for (;;) {
    const queue = await queues.find(namespace, name, hardDeadline);
    if (queue === undefined) {
      if (!(await appeared(queues, request, signal))) return { items: [], undelivered: () => undefined };
      continue;
    }
    checkClaimMs(queue, claim?.claimMs);
    try {
      return consumed(
        queue,
        claim,
        await queue.dispatcher.take({ max, claim, receivedAt, waitMs, hardDeadline, signal }),
      );
    } catch (error) {
      if (!(error instanceof QueueGoneError)) throw error;
      await queues.reopen(queue, hardDeadline);
    }
  }
}

function consumed(queue: Queue, claim: ClaimTerms | undefined, items: Delivered[]): Consumed {
  const undelivered = (): void => {
    if (claim !== undefined) void takeBack(queue, items, performance.now() + BACKGROUND_MS).catch(() => undefined); // they go with the lease
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
function appeared(
  queues: Queues,
  { namespace, name, waitMs, receivedAt, hardDeadline }: ConsumeRequest,
  signal: AbortSignal,
): Promise<boolean> {
  const remaining = receivedAt + waitMs - performance.now();
  if (remaining <= 0 || endReason(signal) !== undefined) return Promise.resolve(false);
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
