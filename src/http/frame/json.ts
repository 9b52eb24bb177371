/**
 * JSON from strangers. `JSON.parse` alone is not enough: its messages quote the text (which may be a lease token) and
 * lack a position on some versions of node, the last of two members with one name wins silently, and a `__proto__`
 * member is a trap for code that copies the object. So the text is scanned first, and parsed only if nothing is wrong
 * with it.
 */
import { PosternError } from '../../errors.js';

/** No body of the contract comes near this; below it, recursion over the parsed value is safe. */
const DEPTH_MAX = 64;
const NAME_SHOWN_MAX = 60;

/**
 * @param maxValues scalars, objects, arrays and member names in the body, together
 * @throws PosternError `malformed` with the position of the first error; `too-large` for too many values
 */
export function parseJson(text: string, maxValues: number): unknown {
  if (text === '{}') return {}; // most requests of all
  new Scanner(text, maxValues).document();
  return JSON.parse(text);
}

const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;

/** The member names of an open object so far; null for an open array. */
type Open = Set<string> | null;

/** Scans without recursion, so that no nesting can exhaust the stack. */
class Scanner {
  readonly #text: string;
  readonly #maxValues: number;
  readonly #open: Open[] = [];
  #at = 0;
  #values = 0;

  constructor(text: string, maxValues: number) {
    this.#text = text;
    this.#maxValues = maxValues;
  }

  document(): void {
    do {
      this.#valueOrOpening();
    } while (this.#closeOrGoOn());
    this.#space();
    if (this.#at < this.#text.length) this.#fail('nothing may follow the value');
  }

  /** A scalar, an empty container, or the openings up to the first value inside. */
  #valueOrOpening(): void {
    for (;;) {
      this.#space();
      this.#count();
      const character = this.#text[this.#at];
      if (character !== '{' && character !== '[') return this.#scalar(character);
      this.#at += 1;
      this.#space();
      if (this.#take(character === '{' ? '}' : ']')) return;
      if (this.#open.length === DEPTH_MAX) this.#fail(`at most ${DEPTH_MAX} levels are read`);
      const names = character === '{' ? new Set<string>() : null;
      this.#open.push(names);
      if (names !== null) this.#name(names);
    }
  }

  /** After a value: closes what ends here; true if another value follows. */
  #closeOrGoOn(): boolean {
    for (;;) {
      const names = this.#open.at(-1);
      if (names === undefined) return false;
      this.#space();
      if (this.#take(',')) {
        if (names !== null) {
          this.#space();
          this.#name(names);
        }
        return true;
      }
      const closing = names === null ? ']' : '}';
      if (!this.#take(closing)) this.#fail(`"," or "${closing}" was expected`);
      this.#open.pop();
    }
  }

  #count(): void {
    this.#values += 1;
    if (this.#values > this.#maxValues) throw tooManyValues(this.#maxValues);
  }

  #name(names: Set<string>): void {
    this.#count();
    const start = this.#at;
    if (this.#text[start] !== '"') this.#fail('a member name in double quotes was expected');
    this.#string();
    const quoted = this.#text.slice(start, this.#at);
    const name = quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
    if (name === '__proto__') this.#fail('the member name "__proto__" is not allowed', start);
    if (names.has(name))
      this.#fail(`the member ${JSON.stringify(name.slice(0, NAME_SHOWN_MAX))} is there twice`, start);
    names.add(name);
    this.#space();
    if (!this.#take(':')) this.#fail('":" was expected');
  }

  #scalar(first: string | undefined): void {
    if (first === '"') this.#string();
    else if (!this.#skip(LITERAL)) this.#number();
  }

  /** Rejects a number that would be read as a different one: it may be the id of something. */
  #number(): void {
    const start = this.#at;
    if (!this.#skip(NUMBER)) this.#fail('a value was expected');
    const text = this.#text.slice(start, this.#at);
    const number = Number(text);
    if (!Number.isFinite(number)) this.#fail('the number is too large', start);
    // What is written back in the same digits is kept: so JavaScript writes 1e20.
    if (/^-?[0-9]+$/.test(text) && !Number.isSafeInteger(number) && String(number) !== text)
      this.#fail(
        `the integer is beyond ${Number.MAX_SAFE_INTEGER} and would not be kept as it is; values of your own can be sent as strings`,
        start,
      );
  }

  #string(): void {
    this.#at += 1;
    for (;;) {
      this.#skip(PLAIN_CHARACTERS);
      if (this.#take('"')) return;
      if (this.#at >= this.#text.length) this.#fail('the string does not end');
      if (this.#text[this.#at] !== '\\') this.#fail('a control character in a string must be escaped');
      if (!this.#skip(ESCAPE)) this.#fail('there is no such escape');
    }
  }

  /**
   * Called between any two parts of a text, so without a regular expression, which would cost as much as the rest of
   * the scan.
   */
  #space(): void {
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.#at += 1;
    }
  }

  /** Skips what the sticky pattern matches here; returns whether it matched anything. */
  #skip(pattern: RegExp): boolean {
    pattern.lastIndex = this.#at;
    if (!pattern.test(this.#text)) return false;
    const moved = pattern.lastIndex > this.#at;
    this.#at = pattern.lastIndex;
    return moved;
  }

  #take(character: string): boolean {
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #fail(what: string, position = this.#at): never {
    const where = position >= this.#text.length ? `its end (position ${position})` : `position ${position}`;
    throw new PosternError('malformed', `The body is not JSON: at ${where}, ${what}.`, { members: { position } });
  }
}

function tooManyValues(maxJsonValues: number): PosternError {
  return new PosternError(
    'too-large',
    `The body has more than ${maxJsonValues} values (names of members, numbers, texts, objects, lists …); send what is that large as bytes.`,
    { members: { maxJsonValues } },
  );
}
