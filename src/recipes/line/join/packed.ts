/** What a caller shows to others, kept as its text: parsed it takes ten times the memory, while its request waits. */

/** @returns what `JSON.stringify` writes as it writes the value */
export function packed(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? new Packed(JSON.stringify(value)) : value;
}

class Packed {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toJSON(): unknown {
    return JSON.parse(this.#text);
  }
}
