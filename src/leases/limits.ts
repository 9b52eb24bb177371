/**
 * How much one lease may own, and one replica: far below the amount at which the end of its session would harm the
 * ensemble (`owned-nodes.ts`).
 */
import { PosternError } from '../errors.js';
import type { OwnedLimit, OwnedRules } from '../zookeeper/lease/owned-nodes.js';

export interface LeaseLimits {
  /** Places in line, members of pools, candidacies, memberships, entries and votes. */
  maxHoldsPerLease: number;
  /** Claimed messages that are not acknowledged yet. */
  maxClaimsPerLease: number;
  /** Bytes of the paths of everything it owns, plus four for each. */
  maxPathBytesPerLease: number;
}

/** The settings' names, which refusals use too. */
const SETTING_OF = {
  holds: 'maxHoldsPerLease',
  claims: 'maxClaimsPerLease',
  pathBytes: 'maxPathBytesPerLease',
} as const satisfies Record<OwnedLimit, keyof LeaseLimits>;

const CLAIM = /\/p\d{3}\/s-\d{10}\/m-[^/]+\/c$/;
const HOLD =
  /\/ns\/[^/]+\/(?:locks|lock-rooms|rwlocks|semaphores|elections|pool-lines|pool-held|groups|double-barriers|transactions)\//;
const TAIL = '-tail-latch-';

/** @param onRefusal called for each refusal */
export function ownedByLease(limits: LeaseLimits, onRefusal: () => void): OwnedRules {
  return {
    limits: limitsOf(limits),
    classOf: (path) => {
      if (path.endsWith('/c') && CLAIM.test(path)) return 'claims';
      return HOLD.test(path) && !path.includes(TAIL) ? 'holds' : undefined;
    },
    refusal: (limit) => {
      const setting = SETTING_OF[limit];
      onRefusal();
      return new PosternError('too-many-holds', sentence(limit, limits[setting]), {
        members: { limit: setting, [setting]: limits[setting] },
      });
    },
  };
}

/** The replica's own session owns the turns that it has, or waits for, at queues. */
export function ownedByReplica(limits: LeaseLimits): OwnedRules {
  return {
    limits: limitsOf(limits),
    classOf: () => undefined,
    refusal: () =>
      new PosternError(
        'overloaded',
        'This replica serves consumers at as many queues as it may; nothing was done. Another replica may have room.',
      ),
  };
}

function limitsOf(limits: LeaseLimits): OwnedRules['limits'] {
  return {
    holds: limits.maxHoldsPerLease,
    claims: limits.maxClaimsPerLease,
    pathBytes: limits.maxPathBytesPerLease,
  };
}

function sentence(limit: OwnedLimit, most: number): string {
  switch (limit) {
    case 'holds':
      return `A lease may have ${most} holds and places in line; release some, or take a second lease.`;
    case 'claims':
      return `This lease has claimed ${most} messages that are not acknowledged; acknowledge some, or take a second lease.`;
    case 'pathBytes':
      return `The paths of all that this lease owns may have ${most} bytes together; release some, or take a second lease.`;
  }
}
