/**
 * JSON values that are kept as their text, to be stored or shown. As objects those of callers may take twenty times as
 * much memory: 4 KiB of `{}` in an array are 90 KB. And what is told to many is put into words once (`jsonOf`).
 */
class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  get length(): number {
    return this.text.length;
  }

  /** Parsed while it is written again. */
  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

/** The value, for JSON alone. */
export function asShown(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? new JsonText(jsonOf(value)) : value;
}

/** About how long it is in an answer. */
export function lengthShown(value: unknown): number {
  return value instanceof JsonText || typeof value === 'string' ? value.length : 0;
}

/** As `JSON.stringify`; of what is kept as text it is that text. */
export function jsonOf(value: unknown): string {
  return value instanceof JsonText ? value.text : JSON.stringify(value);
}

/** An object with these members, of which those kept as text are not parsed again. */
export function objectShown(members: Readonly<Record<string, unknown>>): unknown {
  const shown = Object.entries(members).filter(([, value]) => value !== undefined);
  return new JsonText(`{${shown.map(([name, value]) => `${JSON.stringify(name)}:${jsonOf(value)}`).join(',')}}`);
}

/** A list of these items, as `objectShown`. */
export function listShown(items: readonly unknown[]): unknown {
  return new JsonText(`[${items.map(jsonOf).join(',')}]`);
}
