/** The prefixes watched in one directory, and what a stream with too many keys ends with. */
import { BrokenRulesError, type PosternError } from '../../errors.js';
import { coverOf, prefixIn } from '../../prefixes.js';

/** So many summaries are sent at the begin of a stream: 2 MB. */
export const PREFIX_KEYS_MAX = 10_000;

export class WatchedPrefixes {
  readonly #watching = new Map<string, number>();
  #cover: readonly string[] = [];
  /** Whether the cover may be another one by now: it is found when it is asked for, once for many changes. */
  #isStale = false;
  /** Called when the cover may have changed. */
  onChange = (): void => undefined;

  constructor(readonly namespace: string) {}

  get size(): number {
    return this.#watching.size;
  }

  /**
   * The smallest set of prefixes that covers every watched one, sorted; a key begins with at most one of them. The same
   * array for as long as they are the same.
   */
  get cover(): readonly string[] {
    if (!this.#isStale) return this.#cover;
    this.#isStale = false;
    const cover = coverOf(this.#watching.keys());
    if (cover.length !== this.#cover.length || cover.some((one, i) => one !== this.#cover[i])) this.#cover = cover;
    return this.#cover;
  }

  add(prefixes: readonly string[]): void {
    for (const prefix of prefixes) this.#set(prefix, (this.#watching.get(prefix) ?? 0) + 1);
    if (this.#isStale) this.onChange();
  }

  remove(prefixes: readonly string[]): void {
    for (const prefix of prefixes) this.#set(prefix, (this.#watching.get(prefix) ?? 0) - 1);
    if (this.#isStale) this.onChange();
  }

  #set(prefix: string, count: number): void {
    const isNew = !this.#watching.has(prefix);
    if (count > 0) this.#watching.set(prefix, count);
    else this.#watching.delete(prefix);
    const covering = prefixIn(this.#cover, prefix);
    if (isNew ? covering === undefined : count === 0 && covering === prefix) this.#isStale = true;
  }
}

/** What a stream of too many keys ends with. */
export function tooManyKeys(prefix: string): PosternError {
  const detail = `More than ${PREFIX_KEYS_MAX} keys begin with "${prefix}"; watch a longer prefix.`;
  return new BrokenRulesError('query', [{ field: 'prefix', detail }], { maxKeys: PREFIX_KEYS_MAX });
}
