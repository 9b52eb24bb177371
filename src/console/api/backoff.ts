/** How long to wait before another try: twice as long each time, and at a random moment in the second half of it. */
const FIRST_MS = 500;
const MOST_MS = 15_000;

/**
 * @param failures how many tries have failed in a row before this one
 * @param chance from 0 to 1
 */
export function backoffMs(failures: number, chance: number): number {
  const most = Math.min(MOST_MS, FIRST_MS * 2 ** Math.min(failures, 10));
  return Math.round((most / 2) * (1 + chance));
}
