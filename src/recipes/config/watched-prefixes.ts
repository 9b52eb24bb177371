/** The prefixes watched in one directory, and what a stream with too many keys ends with. */
import { BrokenRulesError, PosternError } from '../../errors.js';

/** So many summaries are sent at the begin of a stream: 2 MB. */
export const PREFIX_KEYS_MAX = 10_000;

export class WatchedPrefixes {
  readonly #watching = new Map<string, number>();
  #cover: readonly string[] = [];
  /** Called when the cover changes. */
  onChange = (): void => undefined;

  constructor(readonly namespace: string) {}

  get size(): number {
    return this.#watching.size;
  }

  /** The smallest set of prefixes that covers every watched one; a key begins with at most one of them. */
  get cover(): readonly string[] {
    return this.#cover;
  }

  add(prefix: string): void {
    this.#set(prefix, (this.#watching.get(prefix) ?? 0) + 1);
  }

  remove(prefix: string): void {
    this.#set(prefix, (this.#watching.get(prefix) ?? 0) - 1);
  }

  #set(prefix: string, count: number): void {
    if (count > 0) this.#watching.set(prefix, count);
    else this.#watching.delete(prefix);
    const cover: string[] = [];
    // Sorted, everything that begins with a prefix follows it directly.
    for (const next of [...this.#watching.keys()].sort()) {
      const last = cover.at(-1);
      if (last === undefined || !next.startsWith(last)) cover.push(next);
    }
    if (cover.length === this.#cover.length && cover.every((one, i) => one === this.#cover[i])) return;
    this.#cover = cover;
    this.onChange();
  }
}

/** What a stream of too many keys ends with. */
export function tooManyKeys(prefix: string): PosternError {
  const detail = `More than ${PREFIX_KEYS_MAX} keys begin with "${prefix}"; watch a longer prefix.`;
  return new BrokenRulesError('query', [{ field: 'prefix', detail }], { maxKeys: PREFIX_KEYS_MAX });
}

/** What a stream ends with when others have what there is. */
export function tooManyWatched(max: number): PosternError {
  return new PosternError(
    'overloaded',
    `The streams of this replica watch as many keys as they may together (${max}); ask another one, or watch a longer prefix.`,
    { members: { maxKeys: max } },
  );
}
