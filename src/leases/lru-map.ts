/**
 * A map that forgets what was not used for longest when it is full.
 *
 * In two halves: what is set or read goes to the young one, and when that is full it becomes the old one, and what was the old one is
 * forgotten. So an entry stays for at least `max / 2` uses of others, and one that is read often costs a lookup and no change: to keep an exact
 * order each reading would delete the entry and set it again.
 */
export class LruMap<K, V> {
  #young = new Map<K, V>();
  #old = new Map<K, V>();
  readonly #half: number;

  /** @param max at least 2 */
  constructor(max: number) {
    this.#half = Math.max(1, Math.floor(max / 2));
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  get(key: K): V | undefined {
    const value = this.#young.get(key);
    if (value !== undefined) return value;
    const older = this.#old.get(key);
    if (older === undefined) return undefined;
    this.set(key, older);
    return older;
  }

  set(key: K, value: V): void {
    if (this.#old.size > 0) this.#old.delete(key);
    this.#young.set(key, value);
    if (this.#young.size < this.#half) return;
    this.#old = this.#young;
    this.#young = new Map();
  }

  delete(key: K): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
