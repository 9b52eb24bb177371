/** The members of a pool as far as they are shown, each with its state and its holder. */
import type { Schemas } from '../api/contract.js';

export interface ShownMember {
  readonly id: string;
  /** `drained`: given to nobody any more, and held by nobody. Undefined where the answer does not tell. */
  readonly state: 'free' | 'held' | 'quarantined' | 'draining' | 'drained' | undefined;
  readonly held: Schemas['HeldMember'] | undefined;
  /** When its quarantine ends; null while nobody has found the loss. */
  readonly until: string | null | undefined;
  /** As the pool lists it; numbers are not listed. */
  readonly listed: Schemas['PoolMember'] | undefined;
}

/** A table of more is read by nobody. */
const SHOWN = 100;

/**
 * Listed members in their order, behind them those that are held or quarantined and not listed: numbers, or members
 * that were left out of the list while they were held.
 * @returns `left`: how many more there are, free numbers not counted
 */
export function membersOf(pool: Schemas['Pool']): { members: readonly ShownMember[]; left: number } {
  const listed = new Map(pool.members?.map((member) => [member.id, member]));
  const held = new Map(pool.held.map((member) => [member.id, member]));
  const until = new Map(pool.resting.map((member) => [member.id, member.until]));
  // Of a large pool the gateway tells the first held and quarantined members only: any other may be one of them.
  const isWhole = held.size === pool.heldCount && until.size === pool.restingCount;
  const ids = new Set([...listed.keys(), ...held.keys(), ...until.keys()]);
  const members = [...ids].slice(0, SHOWN).map((id): ShownMember => {
    const drain = listed.get(id)?.drain === true || (pool.members !== undefined && !listed.has(id));
    const unheld = isWhole ? (drain ? 'drained' : 'free') : undefined;
    const state = held.has(id) ? (drain ? 'draining' : 'held') : until.has(id) ? 'quarantined' : unheld;
    return { id, state, held: held.get(id), until: until.get(id), listed: listed.get(id) };
  });
  const all = pool.members === undefined ? pool.heldCount + pool.restingCount : ids.size;
  return { members, left: Math.max(0, all - members.length) };
}
