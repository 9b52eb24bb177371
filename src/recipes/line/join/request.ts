/** The request to join a line (`join.ts`), and its result. */
import type { Lease } from '../../../leases/lease.js';
import type { Requester } from '../../../time.js';
import type { CandidateRecord, Contender, Mode, ReservedPlace } from '../contender.js';
import type { SeenDirectory } from '../directory.js';
import type { Place } from '../place.js';

export interface JoinRequest {
  mode: Mode;
  /** Semaphores only: how many permits there are, if the caller says so, and how many it wants. */
  permits?: { limit: number | undefined; count: number } | undefined;
  /** In the room of a lock by priority. */
  priority?: number | undefined;
  /** Of locks: takes over the place that its turn in the room has given it, and makes none (`lock/priority.ts`). */
  hasTurn?: boolean | undefined;
  name: string;
  lease: Lease;
  requestId: string;
  /**
   * Under which the place is found again; the first is used for a new node. The second may be another lease's: it is
   * checked.
   */
  guids: { own: string; shared: string | undefined; create: 'own' | 'shared' };
  data: unknown;
  /** For how long nobody is granted what the hold excludes, if it is lost; 0: not at all. */
  lockDelayMs: number;
  /** One-call acquires: kept with the node, so that a repeated call finds it. */
  leaseToken?: string | undefined;
  /**
   * One-call acquires, in the try that made the lease: ends it, and says whether it could. Called when nothing comes of
   * the request, and nobody else has the place.
   */
  endLease?: ((deadline: number) => Promise<boolean>) | undefined;
  /** The place is to outlive the lease's session: it is made persistent. */
  reservation?: ReservedPlace | undefined;
  /** Of writers: make a reader's place as well, which the hold can be turned into (`downgrade.ts`). */
  downgradable?: boolean | undefined;
  /** Of candidates; see `CandidateRecord`. A place that is found keeps what it has. */
  candidate?: Pick<CandidateRecord, 'preference' | 'passed'> | undefined;
  /** The notice that an earlier place of this request made way. It has no use once the request stands again. */
  notice?: string | undefined;
  /** It stands again by itself: another attempt that has a place by now keeps it. */
  again?: true | undefined;
  /** Arrival of the request, monotonic: what `waitMs` counts from. */
  receivedAt: number;
  /** 0, and no `keepPlace`: the caller wants a place only where it is free. */
  waitMs: number;
  /** The place stays in line if no answer can be given. */
  keepPlace: boolean;
  /** See `AcquireRequest`. */
  stays?: boolean | undefined;
  hardDeadline: number;
  requester: Requester;
}

export interface Placed {
  how: 'placed';
  place: Place;
  first: boolean;
  alreadyHeld: boolean;
  expiresAt: number;
  seen?: SeenDirectory | undefined;
}

export type Joined =
  | Placed
  /** It was to stand again, and another attempt stands by now. */
  | { how: 'superseded' }
  /** The caller does not wait, and somebody stands in line, or a lock-delay runs. */
  | { how: 'refused'; head: Contender }
  | { how: 'refused'; head: undefined; lockedUntil: number };
