/**
 * Decides who in a line may hold; waiting is elsewhere. Pure functions of the line in order.
 *
 * All rules have this in common, and everything else stands on it: a contender is admitted, or not, by those *before*
 * it, and that set can only shrink. So a contender once admitted stays so, and the admitted ones are always the first
 * in line.
 */
import { ROOM } from '../../leases/layout.js';
import type { Kind } from '../../metrics/metrics.js';
import type { Contender } from './contender.js';

export interface LineRule {
  readonly kind: Kind;
  /** Semaphores only: how many permits there are. */
  readonly limit?: number;
  /** How many from the head of the line may hold now. */
  admitted(members: readonly Contender[]): number;
  /**
   * Among how many from the head those who hold are found: more than are admitted after the limit of a semaphore was
   * lowered.
   */
  holding(members: readonly Contender[]): number;
  /**
   * Whom the contender at `index` waits for: when *all* of these are gone it has to look again. Empty: it is admitted.
   * They are watched, so nobody is among them whose leaving would wake it for nothing.
   */
  blockers(members: readonly Contender[], index: number): readonly Contender[];
  /** Whom to ask about, after a wake-up, whether they still stand: replicas see only those leave whom they watch. */
  suspects(members: readonly Contender[], index: number): readonly Contender[];
  /**
   * Whether the contender, once admitted, is the only one: then nobody stands before it, and its release admits the
   * next.
   */
  alone(contender: Contender): boolean;
  /**
   * Whether those who are admitted are shown as holding before their grant is written: the first in line of an election
   * leads, as in Curator.
   */
  readonly leads: boolean;
  /** The room of a lock by priority: it is in order of rank, so a newcomer may stand before others. */
  readonly isRoom?: true;
}

/** So many names fit a request far below the packet limit. */
const SUSPECTS_MAX = 256;

/** Locks, elections and pools: the first in line. Everybody waits for its predecessor alone. */
export function exclusive(kind: Kind): LineRule {
  return {
    kind,
    admitted: (members) => Math.min(1, members.length),
    holding: (members) => Math.min(1, members.length),
    blockers: (members, index) => members.slice(Math.max(0, index - 1), Math.max(0, index)),
    suspects: (members, index) => members.slice(Math.max(0, index - SUSPECTS_MAX), Math.max(0, index)),
    alone: () => true,
    leads: kind === 'election',
  };
}

/**
 * Read-write locks, in strict order of arrival, so that neither side starves. A reader waits for the nearest writer
 * before it. A writer waits for that one too, and for every reader in between: it is woken once, when the last of them
 * has gone, and each of them is watched by one writer only.
 */
export const readWrite: LineRule = {
  kind: 'rwlock',
  admitted(members) {
    const firstWriter = members.findIndex(({ reads }) => !reads);
    if (firstWriter === -1) return members.length;
    return Math.max(1, firstWriter);
  },
  holding: (members) => readWrite.admitted(members),
  blockers(members, index) {
    const me = members[index];
    const writer = nearestWriter(members, index);
    if (me?.reads === true) return writer === -1 ? [] : members.slice(writer, writer + 1);
    return members.slice(Math.max(0, writer), Math.max(0, index));
  },
  suspects(members, index) {
    const before = members.slice(0, Math.max(0, index));
    return (members[index]?.reads === true ? before.filter(({ reads }) => !reads) : before).slice(-SUSPECTS_MAX);
  },
  alone: ({ reads }) => !reads,
  leads: false,
};

function nearestWriter(members: readonly Contender[], index: number): number {
  for (let i = index - 1; i >= 0; i -= 1) if (members[i]?.reads !== true) return i;
  return -1;
}

/**
 * Semaphores, in strict order of arrival: who joined is admitted when its permits and those of all before it fit into
 * the limit, so one that wants many is not overtaken by those that want few.
 *
 * @param high the highest limit under which somebody who still holds may have been granted
 */
export function permits(limit: number, high = limit): LineRule {
  const admitted = (members: readonly Contender[]): number => fitting(members, limit);
  return {
    kind: 'semaphore',
    leads: false,
    limit,
    admitted,
    holding: (members) => fitting(members, Math.max(limit, high)),
    blockers(members, index) {
      return index < admitted(members) ? [] : standing(this, members).filter((_, i) => i < index);
    },
    suspects: () => [],
    alone: () => false,
  };
}

/**
 * Those in the line of a semaphore whose leaving lets others in: whoever may hold, and the first who waits for more
 * permits than are left. While none is left the first who waits is not among them: when it leaves, nobody gets in.
 */
export function standing(rule: LineRule, members: readonly Contender[]): readonly Contender[] {
  const holding = rule.holding(members);
  const taken = members.slice(0, rule.admitted(members)).reduce((sum, member) => sum + permitsOf(member), 0);
  return members.slice(0, taken < (rule.limit ?? 0) ? Math.max(holding, rule.admitted(members) + 1) : holding);
}

export function permitsOf({ permits = 1 }: Pick<Contender, 'permits'>): number {
  return permits;
}

function fitting(members: readonly Contender[], limit: number): number {
  let taken = 0;
  for (const [i, member] of members.entries()) {
    taken += permitsOf(member);
    if (taken > limit) return i;
  }
  return members.length;
}

const RULES: Partial<Record<Kind | typeof ROOM, LineRule>> = {
  lock: exclusive('lock'),
  election: exclusive('election'),
  pool: exclusive('pool'),
  rwlock: readWrite,
  semaphore: permits(0), // until it is known what is agreed on
  [ROOM]: { ...exclusive('lock'), isRoom: true },
};

export function ruleOf(kind: Kind | typeof ROOM): LineRule {
  const rule = RULES[kind];
  if (rule === undefined) throw new Error(`a ${kind} is no line`);
  return rule;
}

/**
 * Who is in the way of somebody who would join now; undefined: nobody, it would be admitted at once. That is the head
 * of the line: unlike those whom the newcomer would wait for, the head is admitted, so it holds, or is abandoned and
 * may be removed.
 */
export function obstacle(
  rule: LineRule,
  members: readonly Contender[],
  newcomer: Pick<Contender, 'reads' | 'permits'>,
): Contender | undefined {
  const joined = [...members, { ...newcomer, name: '', sequence: 0 }];
  return rule.blockers(joined, members.length).length === 0 ? undefined : members[0];
}
