/**
 * A map of bounded size that forgets the entries not used for longest.
 *
 * It has two halves. Entries set or read go to the young half; when that is full, it becomes the old half and the
 * previous old half is forgotten. An entry survives at least `max / 2` uses of others, and reading a hot entry is one
 * lookup without a change. Keeping an exact order would delete and re-insert at every read.
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
