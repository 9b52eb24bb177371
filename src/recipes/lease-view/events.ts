/**
 * What happens to a lease, as a stream of events: `state` first, then `granted`, `turn`, `revocation-requested`,
 * `lost`, `expired`.
 *
 * While the stream is open it heartbeats the lease, three times per TTL. Each time, whenever this replica grants or
 * releases something for the lease, and when the lease may have ended, the nodes that the lease's session owns are read
 * and compared with the previous ones. A hold that is gone without a release through this replica is reported as lost:
 * a client that released it elsewhere knows, any other must learn it. Revocations, asked for or carried out, are read
 * too, after the holds: so a broken hold is never reported as missing, and each revocation is reported once per stream,
 * also on a stream opened later.
 *
 * While the stream is open, its reader has no other sign of its lease. So if ZooKeeper was not heard for two thirds of
 * the TTL, the stream fails rather than staying silent while the lease ends: a third is left to open it at another
 * replica (protocol C12; Consul #18271).
 *
 * Claims of messages come and go by the thousand, and their claimants know of them: they are in the first event only.
 *
 * A candidate without a waiting request leads once those before it are gone, without a write to its node. So the stream
 * observes the elections in which its lease is a candidate without leading, through observers shared by this replica,
 * and looks when one of its candidates leads. A change that makes somebody else the leader costs it no request.
 */
import { LeaseExpiredError } from '../../errors.js';
import type { Lease } from '../../leases/lease.js';
import type { LeaseRecord } from '../../leases/records.js';
import { NoReplyError } from '../../zookeeper/errors.js';
import { parentOf } from '../../zookeeper/paths.js';
import { ABANDONED_GRACE_MS } from '../line/abandoned.js';
import type { Coordination } from '../coordination.js';
import { describeHolds } from './holds.js';
import type { OwnHold } from './own-hold.js';
import type { HolderObservers } from '../line/observer.js';
import { describeClaims, type HeldClaim } from './held-claims.js';
import { participationsOf, type OwnParticipation } from './participations.js';
import { lossOf, readNotices, type Notice } from '../line/revocation/record.js';

export type LossReason = ReturnType<typeof lossOf> | 'missing';

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
  | { event: 'turn'; hold: OwnHold }
  | { event: 'revocation-requested'; notice: Notice }
  | { event: 'lost'; hold: Pick<KnownHold, 'kind' | 'name' | 'member' | 'holdId'>; reason: LossReason }
  | { event: 'expired' };

/** What is kept of a hold between two looks: enough to say that it is lost. There may be thousands. */
type KnownHold = Pick<OwnHold, 'kind' | 'name' | 'member' | 'holdId' | 'path' | 'fencingToken'>;

const LOOKS_PER_TTL = 3;
/** While a place is kept: well before it is passed by (`line/abandoned.ts`), whatever the TTL. */
const TURN_LOOK_MS = ABANDONED_GRACE_MS / 3;
/** Of the TTL, since the sending of the last heartbeat that was answered. */
const SILENCE_MAX = 2 / 3;

/**
 * Calls `emit` with the lease as it is, then with every change, until the signal is aborted or the lease has ended.
 * @throws NoReplyError when the lease could not be kept alive from here for so long that its end is near
 */
export async function followLease(
  context: Coordination,
  observers: HolderObservers,
  lease: Lease,
  emit: (event: LeaseEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  const elections = new ObservedElections(observers);
  const life = context.leases.lifeOf(lease, () => context.granted.announce(lease.leaseId));
  try {
    await follow(context, elections, lease, emit, signal);
  } finally {
    life.stop();
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
  const stream = new LeaseStream(context, elections, lease, emit);
  while (!signal.aborted) {
    const changed = nextChange(context, elections, { lease, lookMs: stream.nextLookMs, signal });
    try {
      await stream.look();
    } catch (error) {
      if (error instanceof LeaseExpiredError) return emit({ event: 'expired' });
      if (!(error instanceof NoReplyError) || performance.now() >= stream.silentUntil) throw error;
    }
    await changed;
  }
}

/** What one stream knows, and says at each look. A look is a call of its own: what it has read goes when it is over. */
class LeaseStream {
  readonly #context: Coordination;
  readonly #elections: ObservedElections;
  readonly #lease: Lease;
  readonly #emit: (event: LeaseEvent) => void;
  #known: ReadonlyMap<string, KnownHold> | undefined;
  readonly #told = new Map<string, string>();
  #turns = new Set<string>();
  #heartbeatAt = performance.now();
  #nextLookMs: number;

  constructor(context: Coordination, elections: ObservedElections, lease: Lease, emit: (event: LeaseEvent) => void) {
    this.#context = context;
    this.#elections = elections;
    this.#lease = lease;
    this.#emit = emit;
    this.#nextLookMs = Math.min(this.#lookMs, TURN_LOOK_MS);
  }

  get nextLookMs(): number {
    return this.#nextLookMs;
  }

  /** Until then ZooKeeper need not answer. */
  get silentUntil(): number {
    return this.#heartbeatAt + this.#lease.ttlMs * SILENCE_MAX;
  }

  get #lookMs(): number {
    return this.#lease.ttlMs / LOOKS_PER_TTL;
  }

  async look(): Promise<void> {
    const [context, lease, emit] = [this.#context, this.#lease, this.#emit];
    const sentAt = performance.now();
    const { record, paths, expiresAt } = await context.leases.show(lease, this.silentUntil);
    this.#heartbeatAt = sentAt;
    const zk = context.control.until(this.silentUntil);
    const holds = await describeHolds(context, zk, lease, paths);
    const [, notices] = await Promise.all([
      zk.sync(context.layout.revocations),
      readNotices(zk, context.layout, lease.leaseId),
    ]);
    const held = holds.filter((hold) => hold.held);
    const participations = participationsOf(context.layout, lease, paths);
    if (this.#known === undefined) {
      const claims = await describeClaims(context, zk, lease, paths);
      emit({ event: 'state', record, holds, participations, claims, expiresAt });
    } else emitChanges(context, this.#known, held, notices, emit);
    emitNotices(notices, this.#told, emit);
    this.#known = sharedOf(lease, held);
    this.#turns = emitTurns(holds, this.#turns, emit);
    this.#nextLookMs = holds.some(isKeptPlace) ? Math.min(this.#lookMs, TURN_LOOK_MS) : this.#lookMs;
    this.#elections.observe(holds.filter(({ kind, held }) => kind === 'election' && !held));
  }
}

/** By lease, what the last look of any of its streams has found: they mostly find the same. */
const found = new WeakMap<Lease, ReadonlyMap<string, KnownHold>>();

function sharedOf(lease: Lease, held: readonly OwnHold[]): ReadonlyMap<string, KnownHold> {
  const last = found.get(lease);
  const isKnown = ({ holdId, path, fencingToken }: OwnHold): boolean => {
    const known = last?.get(holdId);
    return known?.path === path && known.fencingToken === fencingToken;
  };
  if (last?.size === held.length && held.every(isKnown)) return last;
  const now = new Map(held.map((hold) => [hold.holdId, knownOf(hold)]));
  found.set(lease, now);
  return now;
}

function knownOf({ kind, name, member, holdId, path, fencingToken }: OwnHold): KnownHold {
  return { kind, name, ...(member === undefined ? {} : { member }), holdId, path, fencingToken };
}

/** Of which the stream says when its turn has come; a candidate leads without being asked. */
function isKeptPlace({ kind, held, isTurn }: OwnHold): boolean {
  return isTurn !== undefined && !held && kind !== 'election';
}

function emitChanges(
  { granted }: Coordination,
  before: ReadonlyMap<string, KnownHold>,
  held: readonly OwnHold[],
  notices: readonly Notice[],
  emit: (event: LeaseEvent) => void,
): void {
  for (const hold of held) if (!before.has(hold.holdId)) emit({ event: 'granted', hold });
  const now = new Set(held.map(({ holdId }) => holdId));
  const broken = new Set(notices.filter(({ state }) => state === 'broken').map(({ holdId }) => holdId));
  for (const hold of before.values()) {
    if (!broken.has(hold.holdId) && !now.has(hold.holdId) && !granted.wasReleased(hold.path, hold.fencingToken))
      emit({ event: 'lost', hold, reason: 'missing' });
  }
}

/**
 * A kept place is granted by a request only: its client is told once that its turn has come, as far as a look shows it
 * anyway. No watch is set for it; whoever wants to know at once waits in a request.
 */
function emitTurns(
  holds: readonly OwnHold[],
  told: ReadonlySet<string>,
  emit: (event: LeaseEvent) => void,
): Set<string> {
  const turns = holds.filter(({ isTurn }) => isTurn === true);
  for (const hold of turns) if (!told.has(hold.holdId)) emit({ event: 'turn', hold });
  return new Set(turns.map(({ holdId }) => holdId));
}

/** @param told what the stream has said already, by holdId */
function emitNotices(notices: readonly Notice[], told: Map<string, string>, emit: (event: LeaseEvent) => void): void {
  for (const notice of notices) {
    const news = `${notice.state} ${notice.breakAt}`;
    if (told.get(notice.holdId) === news) continue;
    told.set(notice.holdId, news);
    if (notice.state === 'broken') emit({ event: 'lost', hold: notice, reason: lossOf(notice) });
    else emit({ event: 'revocation-requested', notice });
  }
}

/** Resolves when it is time for the next look. */
function nextChange(
  context: Coordination,
  elections: ObservedElections,
  { lease, lookMs, signal }: { lease: Lease; lookMs: number; signal: AbortSignal },
): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      unsubscribe();
      elections.onElected = () => undefined;
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, lookMs);
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
  readonly #observers: HolderObservers;
  /** By candidateId. */
  readonly #subscriptions = new Map<string, () => void>();

  constructor(observers: HolderObservers) {
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
      const line = { kind: 'election' as const, path: parentOf(path) };
      const unsubscribe = this.#observers.subscribe(line, ({ holders: [leader] }) => {
        if (leader?.holdId === holdId) this.onElected();
      });
      this.#subscriptions.set(holdId, unsubscribe);
    }
  }

  stop(): void {
    this.observe([]);
  }
}
