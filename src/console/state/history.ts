/** How many held and how many waited, over the last minutes: a ring that never grows. */

export interface Sample {
  /** Epoch seconds, as plots have them. */
  readonly at: number;
  /** Null: nobody told. */
  readonly held: number | null;
  /** Null: nobody asked, or nobody answered. */
  readonly waiting: number | null;
}

/** Times, then the values of each line. */
export type Columns = [number[], (number | null)[], (number | null)[]];

export class History {
  readonly #max: number;
  #samples: Sample[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  add(sample: Sample): void {
    this.#samples = [...this.#samples, sample].slice(-this.#max);
  }

  clear(): void {
    this.#samples = [];
  }

  /** In columns: times, held, waiting. */
  get columns(): Columns {
    return [
      this.#samples.map(({ at }) => at),
      this.#samples.map(({ held }) => held),
      this.#samples.map(({ waiting }) => waiting),
    ];
  }
}
