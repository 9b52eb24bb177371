/**
 * JSON values of callers that are kept, to be stored or shown: as their text, which is parsed while it is written
 * again. As objects they may take twenty times as much memory: 4 KiB of `{}` in an array are 90 KB.
 */
class JsonText {
  readonly #text: string;

  constructor(value: object) {
    this.#text = JSON.stringify(value);
  }

  get length(): number {
    return this.#text.length;
  }

  toJSON(): unknown {
    return JSON.parse(this.#text);
  }
}

/** The value, for `JSON.stringify` alone. */
export function asShown(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? new JsonText(value) : value;
}

/** About how long it is in an answer. */
export function lengthShown(value: unknown): number {
  return value instanceof JsonText || typeof value === 'string' ? value.length : 0;
}
