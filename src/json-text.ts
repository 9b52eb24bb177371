/**
 * JSON values that are kept as their text, to be stored or shown. As objects those of callers may take twenty times as
 * much memory, and a hundred times as long to read and to write: 4 KiB of `[]` in an array are 90 KB and most of a
 * millisecond. And what is told to many is put into words once.
 */
import { randomBytes } from 'node:crypto';

class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  get length(): number {
    return this.text.length;
  }

  /** Of `jsonOf` a mark, in whose place the text comes; otherwise parsed while it is written again. */
  toJSON(): unknown {
    if (kept === undefined) return JSON.parse(this.text);
    kept.push(this.text);
    return MARK;
  }
}

/** No text of a caller has it: nobody is told. */
const MARK = randomBytes(16).toString('base64url');
/** Of the value that `jsonOf` puts into words now: the texts, in their order. */
let kept: string[] | undefined;

/** The value, for JSON alone. */
export function asShown(value: unknown): unknown {
  return typeof value === 'object' && value !== null ? new JsonText(jsonOf(value)) : value;
}

/** About how long it is in an answer. */
export function lengthShown(value: unknown): number {
  return value instanceof JsonText || typeof value === 'string' ? value.length : 0;
}

/** As `JSON.stringify`; of what is kept as text, wherever in it, it is that text. */
export function jsonOf(value: unknown): string {
  if (value instanceof JsonText) return value.text;
  const texts: string[] = [];
  kept = texts;
  let json: string;
  try {
    json = JSON.stringify(value);
  } finally {
    kept = undefined;
  }
  if (texts.length === 0) return json;
  return json
    .split(`"${MARK}"`)
    .map((part, i) => (i === 0 ? part : (texts[i - 1] as string) + part))
    .join('');
}

/**
 * As `JSON.parse`, with one member as `asShown`: an object or a list in it is not taken apart.
 * @param text of an object, as `JSON.stringify` writes it: in that member only its brackets are looked at
 * @throws SyntaxError
 */
export function parseShown(text: string, member: string): unknown {
  const [from, to] = spanOf(text, `"${member}":`);
  if (from === to) return JSON.parse(text);
  const parsed = JSON.parse(`${text.slice(0, from)}null${text.slice(to)}`) as Record<string, unknown>;
  parsed[member] = new JsonText(text.slice(from, to));
  return parsed;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];

const isOpening = (code: number): boolean => code === 0x5b || code === 0x7b;
const isClosing = (code: number): boolean => code === 0x5d || code === 0x7d;

/** Where the list or object is that an object has under this name; empty if there is none. */
function spanOf(text: string, name: string): [from: number, to: number] {
  if (!text.includes(name)) return [0, 0];
  let from = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      if (depth === 1 && from === 0 && text.startsWith(name, at)) {
        from = at + name.length;
        if (!isOpening(text.charCodeAt(from))) return [0, 0];
        at = from - 1;
      } else at = endOfString(text, at);
    } else if (isOpening(code)) depth += 1;
    else if (isClosing(code)) {
      depth -= 1;
      if (depth === 1 && from > 0) return [from, at + 1];
    }
  }
  return [0, 0];
}

/** @param start of its opening quote @returns that of its closing one */
function endOfString(text: string, start: number): number {
  for (let end = start; ;) {
    end = text.indexOf('"', end + 1);
    if (end === -1) return text.length;
    let before = end;
    while (text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    if ((end - before) % 2 === 0) return end;
  }
}
