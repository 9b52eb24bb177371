/** Sets of prefixes: finds the one that a name begins with, also among many. */

/** The smallest set of prefixes that covers all of these, sorted: none begins with another one. */
export function coverOf(prefixes: Iterable<string>): string[] {
  const cover: string[] = [];
  // Sorted, everything that begins with a prefix follows it directly.
  for (const next of [...prefixes].sort()) {
    const last = cover.at(-1);
    if (last === undefined || !next.startsWith(last)) cover.push(next);
  }
  return cover;
}

/**
 * The only prefix in the cover that the text begins with, if any.
 * @param cover as `coverOf` returns it
 */
export function prefixIn(cover: readonly string[], text: string): string | undefined {
  // Whatever is sorted between a prefix and a text that begins with it begins with it as well.
  const at = countUpTo(cover, text);
  const nearest = cover[at - 1];
  return nearest !== undefined && text.startsWith(nearest) ? nearest : undefined;
}

/**
 * Whether some prefix in the cover is longer than `begin` and begins with it.
 * @param cover as `coverOf` returns it
 */
export function hasLonger(cover: readonly string[], begin: string): boolean {
  return cover[countUpTo(cover, begin)]?.startsWith(begin) ?? false;
}

/** How many are not sorted behind the text. */
function countUpTo(sorted: readonly string[], text: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as string) <= text) low = middle + 1;
    else high = middle;
  }
  return low;
}
