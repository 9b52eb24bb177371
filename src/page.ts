/** A request for one page of a list of names. */
export interface Page {
  readonly limit: number;
  /** The last name of the previous page. */
  readonly after: string | undefined;
  readonly prefix: string;
  /**
   * Whether the caller may see this name. Names that it may not see are skipped before the page is filled, so that
   * pages reveal nothing of them.
   */
  readonly shows: (name: string) => boolean;
}

/** Where a page ends; the next page starts behind it. */
export interface PageEnd {
  readonly at: string;
  /** Whether the caller may be forbidden to know this name: the page token must not reveal it then. */
  readonly secret: boolean;
}

/** The names of one directory, for all who want a page of them. */
export class NameList {
  readonly #names: readonly string[];
  #sorted: readonly string[] | undefined;
  #pages = 0;

  constructor(names: readonly string[]) {
    this.#names = names;
  }

  /** In order; sorted once for all. */
  get sorted(): readonly string[] {
    return (this.#sorted ??= [...this.#names].sort());
  }

  /** As `pageOfNames`. Only the first page is picked from all names: for more of them they are sorted. */
  page(page: Page, count = page.limit + 1): string[] {
    this.#pages += 1;
    if (this.#sorted === undefined && this.#pages === 1) return pageOfNames(this.#names, page, count);
    const { after, prefix, shows } = page;
    const names = this.sorted;
    const found: string[] = [];
    const start = countWhile(names, (name) => name < prefix || (after !== undefined && name <= after));
    for (let i = start; i < names.length && found.length < count; i += 1) {
      const name = names[i] as string;
      if (!name.startsWith(prefix)) break;
      if (shows(name)) found.push(name);
    }
    return found;
  }
}

/** How many of these, in order, come before the first for which it is not so. */
export function countWhile(names: readonly string[], isSo: (name: string) => boolean): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isSo(names[middle] as string)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The first `count` names of this page and everything behind it, in order. Of very many names only few are ever sorted.
 * @param count default: enough to fill the page, and one more that tells whether there is another page
 */
export function pageOfNames(
  names: readonly string[],
  { limit, after, prefix, shows }: Page,
  count = limit + 1,
): string[] {
  let first: string[] = [];
  /** Enough names come before it. */
  let end: string | undefined;
  for (const name of names) {
    if (end !== undefined && name > end) continue;
    if (!name.startsWith(prefix) || (after !== undefined && name <= after) || !shows(name)) continue;
    first.push(name);
    if (first.length < 2 * count) continue;
    first = first.sort().slice(0, count);
    end = first.at(-1);
  }
  return first.sort().slice(0, count);
}
