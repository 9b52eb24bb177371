/**
 * A map of bounded size that forgets the entries not used for longest.
 *
 * It has two halves. Entries set or read go to the young half; when that is full, it becomes the old half and the
 * previous old half is forgotten. An entry survives at least `max / 2` uses of others, and reading a hot entry is one
 * lookup without a change. Keeping an exact order would delete and re-insert at every read.
 *
 * Where keys come and go, `keepMs` keeps the map as small as its use: the young half becomes the old one after that
 * time as well, so an entry not used for twice as long goes with the next that is set.
 */
export class LruMap<K, V> {
  #young = new Map<K, V>();
  #old = new Map<K, V>();
  readonly #half: number;
  readonly #keepMs: number;
  /** Until when the young half is young; monotonic. */
  #youngUntil: number;

  /**
   * @param max at least 2
   * @param keepMs for how long an entry survives without being used, at the least, unless there are too many
   */
  constructor(max: number, keepMs = Infinity) {
    this.#half = Math.max(1, Math.floor(max / 2));
    this.#keepMs = keepMs;
    this.#youngUntil = performance.now() + keepMs;
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
    const now = performance.now();
    if (this.#young.size < this.#half && now < this.#youngUntil) return;
    this.#old = this.#young;
    this.#young = new Map();
    this.#youngUntil = now + this.#keepMs;
  }

  delete(key: K): void {
    this.#young.delete(key);
    this.#old.delete(key);
  }
}
