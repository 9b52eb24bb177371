/**
 * The order in the room of a lock by priority (`lock/priority.ts`): each step of priority is worth a hundred numbers.
 * So who waits is passed by a bounded number of those who come later, whatever they ask with (protocol C95).
 */
export const PRIORITY_MAX = 10;
/** So many later requests each step of priority passes. */
export const RANKS_PER_PRIORITY = 100;

/**
 * Where a place stands that was given this number, lowest first: never below 0, the same for everybody at any time, and
 * of no two the same. Of two in one rank it is who came first.
 */
export function ranked(number: number, priority: number): { sequence: number; priority: number } {
  const rank = number + RANKS_PER_PRIORITY * (PRIORITY_MAX - priority);
  return { sequence: rank + priority / (PRIORITY_MAX + 1), priority };
}
