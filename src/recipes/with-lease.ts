/**
 * A lease and what is done with it in one request (C14), for recipes in which nothing that lasts could carry the token,
 * as the place in line of a lock does: the lease itself is found by the request, in its request node
 * (`leases/grant.ts`).
 *
 *   repetition    raises that node from version 0 to 1 before it uses the lease; from then on the lease is its client's
 *   in vain       deletes that node, if it still has version 0, and the lease's own node with it, before it ends the
 *                 lease: so a repetition either keeps the lease alive or makes another one
 *   crash         between the two: nobody has the token, and the lease lapses
 *
 * The two nodes are made and deleted together. Whoever finds the lease's own node in the transaction that raises the
 * request node has raised that of this lease, and not of one that was made after it; whoever finds neither of the two
 * has deleted them by an earlier try. No request waits for the end of a lease: it may have no time left.
 */
import { ClientGoneError, LeaseExpiredError, PosternError } from '../errors.js';
import type { GrantedLease } from '../leases/grant.js';
import type { Lease } from '../leases/lease.js';
import { fullJitter, pause, type Caller } from '../time.js';
import type { BoundClient } from '../zookeeper/bound.js';
import { isReason, isTransient } from '../zookeeper/errors.js';
import type { Coordination } from './coordination.js';

export interface NewLease {
  principal: string;
  namespace: string;
  ttlMs: number | undefined;
  label: string | undefined;
}

/** Which lease a request makes, or has made. */
interface Asked {
  readonly newLease: NewLease;
  /** What the requestId belongs to, as it is in the name of the request node: it stays as it is. */
  readonly subject: readonly [kind: string, name: string, ...names: string[]];
  readonly requestId: string;
  readonly deadline: number;
}

/** @typeParam T what the request is answered with */
export interface OneCall<T> extends Asked {
  readonly requester: Caller;
  readonly work: (lease: Lease) => Promise<T>;
  /** Whether the caller has nothing under the lease after this result. */
  readonly isInVain: (result: T) => boolean;
  /**
   * Whether the lease ends when the client was gone before the result was there. Where what was done stays for the
   * repetition it does not, and lapses.
   */
  readonly endsWhenGone: boolean;
  /** What leaves marks behind is released on the lease's session before that ends. */
  readonly releaseFirst?: ReleaseFirst;
}

type ReleaseFirst = (lease: Lease, zk: BoundClient) => Promise<void>;

export interface WithLease<T> {
  readonly result: T;
  readonly lease: Lease;
  readonly leaseToken: string;
  /**
   * For an answer that did not arrive, unless what was done stays for the repetition: ends the lease, if no other
   * attempt uses it.
   * @param giveBack called in that case: gives back what this attempt has done with it
   */
  readonly undelivered: (giveBack?: () => void) => void;
}

interface CallLease {
  readonly lease: Lease;
  readonly leaseToken: string;
  readonly requestPath: string;
  /** Made by an earlier attempt: it may be its client's. */
  readonly found: boolean;
}

const AGAIN_BASE_MS = 5;
const AGAIN_CAP_MS = 100;
const END_MS = 5_000;

/**
 * Does the work with a lease that is made for it, or was by an earlier attempt of this request.
 * @throws as the work, and PosternError `too-many-leases`; StandingConflictError for another label
 */
export async function withNewLease<T>(context: Coordination, call: OneCall<T>): Promise<WithLease<T>> {
  const { subject, deadline, requester } = call;
  for (let attempt = 0; ; attempt += 1) {
    const made = await leaseOfCall(context, call);
    if (made !== undefined) {
      const { lease, leaseToken, found } = made;
      const end = (giveBack = (): void => undefined): void =>
        found ? giveBack() : endLater(context, made, call.releaseFirst, giveBack);
      try {
        const result = await call.work(lease);
        if (call.isInVain(result)) end();
        return { result, lease, leaseToken, undelivered: end };
      } catch (error) {
        const isRefusal = error instanceof PosternError && error.outcome === 'not-applied' && !isTransient(error);
        // A client that has gone asks for nothing any more, whatever was done for it on the way.
        if (isRefusal || (error instanceof ClientGoneError && call.endsWhenGone)) end();
        // The lease of the earlier attempt ended just now; this one may have another.
        if (!(error instanceof LeaseExpiredError) || !found) throw error;
      }
    }
    const backOff = fullJitter(attempt, AGAIN_BASE_MS, AGAIN_CAP_MS);
    if (performance.now() + backOff >= deadline || (await pause(backOff, requester.signal)) === 'aborted')
      throw new PosternError(
        requester.ended === 'draining' ? 'draining' : 'conflict',
        `The leases of earlier requests for ${subject[0]} "${subject[1]}" with this requestId were about to end; repeat the request.`,
      );
  }
}

/** @returns undefined when the one that was found has just ended */
async function leaseOfCall(
  { leases, layout, control }: Coordination,
  { newLease, subject, requestId, deadline }: Asked,
): Promise<CallLease | undefined> {
  const ownId = JSON.stringify([...subject, requestId]);
  const granted: GrantedLease = await leases.create({ ...newLease, requestId: ownId }, deadline);
  const { lease, leaseToken, found } = granted;
  const requestPath = layout.request(newLease.namespace, newLease.principal, ownId);
  const made = { lease, leaseToken, requestPath, found };
  if (!found) return made;
  try {
    await control.until(deadline).multi([
      { type: 'check', path: layout.lease(lease.namespace, lease.leaseId) },
      { type: 'setData', path: requestPath, data: Buffer.from(leaseToken), version: 0 },
    ]);
  } catch (error) {
    if (isReason(error, 'NO_NODE')) return undefined;
    if (!isReason(error, 'BAD_VERSION')) throw error; // else it is raised already
  }
  return made;
}

/**
 * At once, and again for as long as ZooKeeper does not answer.
 * @param giveBack called when another attempt uses the lease
 */
function endLater(
  context: Coordination,
  made: CallLease,
  releaseFirst: ReleaseFirst | undefined,
  giveBack: () => void,
): void {
  const once = async (): Promise<void> => {
    if (!(await endUnused(context, made, releaseFirst))) giveBack();
  };
  once().catch(() => context.cleanup.persist(once));
}

/** @returns false when another attempt uses it */
async function endUnused(
  { control, layout, leases }: Coordination,
  { lease, requestPath }: CallLease,
  releaseFirst: ReleaseFirst | undefined,
): Promise<boolean> {
  const deadline = performance.now() + END_MS;
  try {
    await control.until(deadline).multi([
      { type: 'delete', path: requestPath, version: 0 },
      { type: 'delete', path: layout.lease(lease.namespace, lease.leaseId) },
    ]);
  } catch (error) {
    if (isReason(error, 'BAD_VERSION')) return false;
    if (!isReason(error, 'NO_NODE')) throw error; // else an earlier try has done it, or the lease has ended
  }
  await leases.sessions.end(lease, deadline, undefined, (session) =>
    Promise.resolve(releaseFirst?.(lease, session.until(deadline))),
  );
  return true;
}
