/** Which members a request is given; pure. */
import type { Member } from './pool.js';
import type { Mark } from './marks.js';

/** What was read of a pool's members. */
export interface Usage {
  /** The ids of those that are held. */
  readonly held: ReadonlySet<string>;
  /** By the id of the member. */
  readonly marks: ReadonlyMap<string, Mark>;
}

export interface Wanted {
  readonly count: number;
  /** As hashed (`marks.ts`); empty: any members are as good as others. */
  readonly owner: string;
}

/**
 * Of the free ones those that are remembered to this owner come first, then those that are remembered to nobody, then
 * the others; of equals the first.
 * @param members that would do, in their order
 * @param isResting whether a member that was lost may not be given out yet; missing: all of them rest
 * @returns `members` in the order of the pool, as a repetition is told them; undefined when too few are free, and then
 *   `lost` says which would be if they did not rest
 */
export function choose(
  members: readonly Member[],
  { held, marks }: Usage,
  { count, owner }: Wanted,
  isResting: (mark: Mark) => boolean = () => true,
): { members: readonly Member[] | undefined; lost: readonly Mark[] } {
  const ranks: Member[][] = [[], [], []];
  const lost: Mark[] = [];
  for (const member of members) {
    if (held.has(member.id)) continue;
    const mark = marks.get(member.id);
    if (mark?.token !== undefined && isResting(mark)) lost.push(mark);
    else ranks[rankOf(mark, owner)]?.push(member);
  }
  const free = ranks.flat();
  if (free.length < count) return { members: undefined, lost };
  const chosen = new Set(free.slice(0, count));
  return { members: members.filter((member) => chosen.has(member)), lost };
}

function rankOf(mark: Mark | undefined, owner: string): 0 | 1 | 2 {
  if (mark === undefined || mark.owner === '') return 1;
  return mark.owner === owner ? 0 : 2;
}

/** The members that nobody has and that do not rest, in any order; marks of lost ones count as resting. */
export function freeOf(members: readonly Member[], usage: Usage): number {
  return members.filter(({ id }) => !usage.held.has(id) && usage.marks.get(id)?.token === undefined).length;
}
