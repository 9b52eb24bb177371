/** Counts what the streams of many things watch together: names, and configuration keys under prefixes. */
export class Watched {
  #count = 0;

  /** @param max what there is room for in this replica */
  constructor(readonly max: number) {}

  /** @param before what was taken before. @returns whether there is room; then it is taken */
  take(count: number, before: number): boolean {
    if (this.#count - before + count > this.max) return false;
    this.#count += count - before;
    return true;
  }
}
