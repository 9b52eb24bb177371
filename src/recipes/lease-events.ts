/**
 * What happens to a lease, as a stream of events: `state` first, then `granted`, `revocation-requested`, `lost`, `expired`.
 *
 * While the stream is open it heartbeats the lease, three times per TTL. Each time, and whenever this replica grants or
 * releases something for the lease, the nodes that the lease's session owns are read and compared with what was there before. A hold
 * that is gone without having been released through this replica is reported as lost: a client that released it
 * elsewhere knows, one that did not must learn it. What was asked back, or broken, is read too, after the holds: so a hold that was broken is
 * never reported as missing, and each is told once per stream, also to one that is opened later.
 *
 * While the stream is open its reader has no other sign of its lease. So when nothing could be heard of ZooKeeper for two thirds of the TTL
 * the stream fails, rather than being silent while the lease ends: a third is left to open it at another replica (protocol C12; Consul #18271).
 *
 * Claims of messages come and go by the thousand, and who claims is told so: they are in the first event and not followed.
 *
 * A candidate for whom no request waits leads when those before it have gone, and nobody writes to its node then. So the stream
 * observes the elections in which its lease stands and does not lead, together with everybody else in this replica who does, and
 * looks when one of its candidates leads. A change that makes somebody else the leader costs it no request.
 */
import { LeaseExpiredError } from '../errors.js';
import type { Lease } from '../leases/lease.js';
import type { LeaseRecord } from '../leases/leases.js';
import { NoReplyError } from '../zookeeper/errors.js';
import { parentOf } from '../zookeeper/paths.js';
import type { Coordination } from './coordination.js';
import { describeHolds, type OwnHold } from './holds.js';
import type { LineObservers } from './line-observer.js';
import { describeClaims, type HeldClaim } from './queue/held-claims.js';
import { participationsOf, type OwnParticipation } from './participations.js';
import { readNotices, type Notice } from './revocation-record.js';

export type LeaseEvent =
  | {
      event: 'state';
      record: LeaseRecord | undefined;
      holds: OwnHold[];
      participations: OwnParticipation[];
      claims: HeldClaim[];
      expiresAt: number;
    }
  | { event: 'granted'; hold: OwnHold }
  | { event: 'revocation-requested'; notice: Notice }
  | { event: 'lost'; hold: Pick<OwnHold, 'kind' | 'name' | 'member' | 'holdId'>; reason: 'broken' | 'missing' }
  | { event: 'expired' };

const LOOKS_PER_TTL = 3;
/** Of the TTL, since the sending of the last heartbeat that was answered. */
const SILENCE_MAX = 2 / 3;

/**
 * Calls `emit` with the lease as it is, then with every change, until the signal is aborted or the lease has ended.
 * @throws NoReplyError when the lease could not be kept alive from here for so long that its end is near
 */
export async function followLease(
  context: Coordination,
  observers: LineObservers,
  lease: Lease,
  emit: (event: LeaseEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const elections = new ObservedElections(observers);
  try {
    await follow(context, elections, lease, emit, signal);
  } finally {
    elections.stop();
  }
}

async function follow(
  context: Coordination,
  elections: ObservedElections,
  lease: Lease,
  emit: (event: LeaseEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  let known: Map<string, OwnHold> | undefined;
  const told = new Map<string, string>();
  const silenceMaxMs = lease.ttlMs * SILENCE_MAX;
  let heartbeatAt = performance.now();
  while (!signal.aborted) {
    const changed = nextChange(context, elections, lease, signal);
    try {
      const sentAt = performance.now();
      const { record, paths, expiresAt } = await context.leases.show(lease, heartbeatAt + silenceMaxMs);
      heartbeatAt = sentAt;
      const deadline = heartbeatAt + silenceMaxMs;
      const holds = await describeHolds(context, lease, paths, deadline);
      const [, notices] = await Promise.all([
        context.control.sync(context.layout.revocations, deadline),
        readNotices(context.control, context.layout, lease.leaseId, deadline),
      ]);
      const now = new Map(holds.filter(({ held }) => held).map((hold) => [hold.holdId, hold]));
      const participations = participationsOf(context.layout, lease, paths);
      if (known === undefined) {
        const claims = await describeClaims(context, lease, paths, deadline);
        emit({ event: 'state', record, holds, participations, claims, expiresAt });
      }
      if (known !== undefined) emitChanges(context, known, now, notices, emit);
      emitNotices(notices, told, emit);
      known = now;
      elections.observe(holds.filter(({ kind, held }) => kind === 'election' && !held));
    } catch (error) {
      if (error instanceof LeaseExpiredError) return emit({ event: 'expired' });
      if (!(error instanceof NoReplyError) || performance.now() >= heartbeatAt + silenceMaxMs) throw error;
    }
    await changed;
  }
}

function emitChanges(
  { granted }: Coordination,
  before: ReadonlyMap<string, OwnHold>,
  now: ReadonlyMap<string, OwnHold>,
  notices: readonly Notice[],
  emit: (event: LeaseEvent) => void,
): void {
  for (const hold of now.values()) if (!before.has(hold.holdId)) emit({ event: 'granted', hold });
  const broken = new Set(notices.filter(({ state }) => state === 'broken').map(({ holdId }) => holdId));
  for (const hold of before.values()) {
    if (!broken.has(hold.holdId) && !now.has(hold.holdId) && !granted.wasReleased(hold.path, hold.fencingToken))
      emit({ event: 'lost', hold, reason: 'missing' });
  }
}

/** @param told what the stream has said already, by holdId */
function emitNotices(notices: readonly Notice[], told: Map<string, string>, emit: (event: LeaseEvent) => void): void {
  for (const notice of notices) {
    const news = `${notice.state} ${notice.breakAt}`;
    if (told.get(notice.holdId) === news) continue;
    told.set(notice.holdId, news);
    if (notice.state === 'broken') emit({ event: 'lost', hold: notice, reason: 'broken' });
    else emit({ event: 'revocation-requested', notice });
  }
}

/** Resolves when it is time for the next look. */
function nextChange(
  context: Coordination,
  elections: ObservedElections,
  lease: Lease,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      unsubscribe();
      elections.onElected = () => undefined;
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, lease.ttlMs / LOOKS_PER_TTL);
    const unsubscribe = context.granted.onChange(lease.leaseId, done);
    elections.onElected = done;
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}

/** The candidacies of one lease that do not lead yet. */
class ObservedElections {
  /** Called when one of them leads. */
  onElected: () => void = () => undefined;
  readonly #observers: LineObservers;
  /** By candidateId. */
  readonly #subscriptions = new Map<string, () => void>();

  constructor(observers: LineObservers) {
    this.#observers = observers;
  }

  /** Observes these, and no others any more. */
  observe(candidacies: readonly OwnHold[]): void {
    const wanted = new Set(candidacies.map(({ holdId }) => holdId));
    for (const [holdId, unsubscribe] of this.#subscriptions) {
      if (wanted.has(holdId)) continue;
      unsubscribe();
      this.#subscriptions.delete(holdId);
    }
    for (const { path, holdId } of candidacies) {
      if (this.#subscriptions.has(holdId)) continue;
      const unsubscribe = this.#observers.subscribe('election', parentOf(path), ({ holders: [leader] }) => {
        if (leader?.holdId === holdId) this.onElected();
      });
      this.#subscriptions.set(holdId, unsubscribe);
    }
  }

  stop(): void {
    this.observe([]);
  }
}
