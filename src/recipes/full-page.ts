/** Pages of what has text that callers gave: they end with as many items as are wanted, or with about a MiB of it. */

/** About so many characters that callers gave are shown in one page, or one item if that has more. */
export const PAGE_LENGTH = 1024 * 1024;
/** With long texts a few of these fill a page. */
const READ_AT_ONCE = 200;

/**
 * Reads some at a time until the page is full.
 * @param wanted what the page may show, in order
 * @param read undefined in the place of what has gone
 * @param lengthOf how many characters that callers gave an item has
 * @returns `end`: so many of those wanted the page has come to, which is all unless it is full
 */
export async function readPage<N, T>(
  wanted: readonly N[],
  read: (some: readonly N[]) => Promise<readonly (T | undefined)[]>,
  lengthOf: (item: T) => number,
): Promise<{ items: T[]; end: number }> {
  const items: T[] = [];
  let length = 0;
  for (let from = 0; from < wanted.length; from += READ_AT_ONCE) {
    const found = await read(wanted.slice(from, from + READ_AT_ONCE));
    for (const [at, item] of found.entries()) {
      if (item === undefined) continue;
      length += lengthOf(item);
      if (items.length > 0 && length > PAGE_LENGTH) return { items, end: from + at };
      items.push(item);
    }
  }
  return { items, end: wanted.length };
}
