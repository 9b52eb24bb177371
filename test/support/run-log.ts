/**
 * The log of all gateways of a test file, and the secrets that its clients came to know: in the first there must be
 * none of the second.
 *
 * Every replica that a test starts in this process logs at level `trace` into it, and every client tells it the tokens
 * that it sends and gets. When a replica goes, what has been logged so far is searched, and a find fails the test. So
 * does a warning of Node of a leak.
 */
import { Writable } from 'node:stream';

/**
 * What Node says of listeners and timers that pile up, or that come at once for being too far away: a defect, wherever
 * it is said.
 */
const NODE_WARNING = /MaxListenersExceeded|Timeout(NaN|Negative|Overflow)/;

/** What a secret that can be told from other words is made of. */
const WORD = /[A-Za-z0-9_-]{12,}/g;
const TOKEN = /"(?:lease|reservation)Token":"([^"]+)"/g;

class RunLog {
  readonly #words = new Map<string, string>();
  #chunks: string[] = [];
  #warnings: string[] = [];
  #replicas = 0;
  /** Where a logger writes to. */
  readonly stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      this.#chunks.push(chunk.toString());
      done();
    },
  });

  constructor() {
    process.on('warning', ({ name, stack = '' }) => {
      // A test gives one signal to all of its clients.
      if (!stack.includes('node_modules/undici')) this.#warnings.push(`${name}: ${stack}`);
    });
  }

  /** The lines since the last search, parsed. */
  lines(): Record<string, unknown>[] {
    return this.#chunks
      .join('')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  /** What it was asked to keep out, of which the longest word counts: a token may come with dots in it. */
  keepOut(secret: string): void {
    const longest = (secret.match(WORD) ?? []).sort((a, b) => b.length - a.length)[0];
    if (longest === undefined) throw new Error('a secret so short cannot be told from other words');
    this.#words.set(longest, secret);
  }

  /** All that a client knows and others must not: what it sends in these headers, and the tokens in what it gets. */
  learn(headers: Readonly<Record<string, string>>, answer: string): void {
    for (const name of ['authorization', 'lease-token']) {
      const value = headers[name]?.replace(/^Bearer /, '');
      // A test of bad input sends anything; what is a secret is long.
      if (value !== undefined && /[A-Za-z0-9_-]{20,}/.test(value)) this.keepOut(value);
    }
    if (answer.includes('Token":"')) for (const [, token] of answer.matchAll(TOKEN)) this.keepOut(token as string);
  }

  /** @throws Error with the line in which a secret is, or with a warning of Node */
  search(chunks: readonly string[] = this.#chunks): void {
    const warning = [...this.#warnings, ...chunks].find((text) => NODE_WARNING.test(text));
    if (warning !== undefined) throw new Error(`Node warns: ${warning}`);
    for (const text of chunks) {
      const found = (text.match(WORD) ?? []).find((word) => this.#words.has(word));
      if (found === undefined) continue;
      const line = text.split('\n').find((one) => one.includes(found));
      throw new Error(`a secret is in the log: ${this.#words.get(found)} in ${line}`);
    }
  }

  /** A replica logs from now on. */
  enter(): void {
    this.#replicas += 1;
  }

  /** A replica is gone. With the last one goes what was logged: what comes next is that of others. */
  leave(): void {
    this.#replicas -= 1;
    if (this.#replicas === 0) this.#chunks = [];
  }

  /**
   * At the end of a test file: the next one begins with nothing of this.
   * @throws Error if a replica was not disposed of
   */
  end(): void {
    const left = this.#replicas;
    this.#replicas = 0;
    this.#chunks = [];
    this.#words.clear();
    this.#warnings = [];
    if (left > 0) throw new Error(`${left} replicas were not disposed of`);
  }
}

/** Of the test file that runs in this process now. */
export const runLog = new RunLog();
