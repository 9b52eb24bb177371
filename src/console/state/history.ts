/** How many held and how many waited, over the last minutes: a ring that never grows. */

export interface Sample {
  /** Epoch seconds, as plots have them. */
  readonly at: number;
  readonly held: number;
  readonly waiting: number;
}

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
  get columns(): [number[], number[], number[]] {
    return [
      this.#samples.map(({ at }) => at),
      this.#samples.map(({ held }) => held),
      this.#samples.map(({ waiting }) => waiting),
    ];
  }
}
