/**
 * JSON as strangers send it. `JSON.parse` alone is not enough: its messages quote the text (which may be a lease token), on
 * some versions of node they say no position, of two members with one name the last wins silently, and a `__proto__` member is
 * a trap for whoever copies the object. So the text is scanned first, and parsed only when nothing is wrong with it.
 */
import { PosternError } from '../errors.js';

/** No body of the contract comes near this; recursion over what was parsed stays safe below it. */
const DEPTH_MAX = 64;
const NAME_SHOWN_MAX = 60;

/** @throws PosternError `malformed`, with the position of the first thing that is wrong. */
export function parseJson(text: string): unknown {
  if (text === '{}') return {}; // most requests of all
  new Scanner(text).document();
  return JSON.parse(text);
}

const SPACE = /[ \t\n\r]*/y;
const PLAIN_CHARACTERS = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;

/** The names of an open object so far; null for an open array. */
type Open = Set<string> | null;

/** Walks over the text without recursion, so that no nesting can exhaust the stack. */
class Scanner {
  readonly #text: string;
  readonly #open: Open[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  document(): void {
    do {
      this.#valueOrOpening();
    } while (this.#closeOrGoOn());
    this.#skip(SPACE);
    if (this.#at < this.#text.length) this.#fail('nothing may follow the value');
  }

  /** A scalar, an empty container, or the openings up to the first value inside. */
  #valueOrOpening(): void {
    for (;;) {
      this.#skip(SPACE);
      const character = this.#text[this.#at];
      if (character !== '{' && character !== '[') return this.#scalar(character);
      this.#at += 1;
      this.#skip(SPACE);
      if (this.#take(character === '{' ? '}' : ']')) return;
      if (this.#open.length === DEPTH_MAX) this.#fail(`at most ${DEPTH_MAX} levels are read`);
      const names = character === '{' ? new Set<string>() : null;
      this.#open.push(names);
      if (names !== null) this.#name(names);
    }
  }

  /** After a value: closes what ends here; true when another value follows. */
  #closeOrGoOn(): boolean {
    for (;;) {
      const names = this.#open.at(-1);
      if (names === undefined) return false;
      this.#skip(SPACE);
      if (this.#take(',')) {
        if (names !== null) {
          this.#skip(SPACE);
          this.#name(names);
        }
        return true;
      }
      const closing = names === null ? ']' : '}';
      if (!this.#take(closing)) this.#fail(`"," or "${closing}" was expected`);
      this.#open.pop();
    }
  }

  #name(names: Set<string>): void {
    const start = this.#at;
    if (this.#text[start] !== '"') this.#fail('a member name in double quotes was expected');
    this.#string();
    const name = JSON.parse(this.#text.slice(start, this.#at)) as string;
    if (name === '__proto__') this.#fail('the member name "__proto__" is not allowed', start);
    if (names.has(name))
      this.#fail(`the member ${JSON.stringify(name.slice(0, NAME_SHOWN_MAX))} is there twice`, start);
    names.add(name);
    this.#skip(SPACE);
    if (!this.#take(':')) this.#fail('":" was expected');
  }

  #scalar(first: string | undefined): void {
    if (first === '"') this.#string();
    else if (!this.#skip(LITERAL) && !this.#skip(NUMBER)) this.#fail('a value was expected');
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

  /** Steps over what the sticky pattern matches here; whether that was anything. */
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
