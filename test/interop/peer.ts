/**
 * A program of another library in a process of its own, with one session, told by lines what to do: so a test writes
 * the scene, and the real library plays its part.
 *
 *   → id TAB thing TAB "make" TAB kind TAB path TAB …     a recipe object under a name
 *   → id TAB thing TAB verb TAB …                         what it is to do; each thing does one after the other
 *   ← id TAB "ok" TAB …                                   as soon as it is done; "0" when the session is there
 *   ← id TAB "error" TAB message
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { eventually } from '../support/eventually.js';
import { timing } from '../support/timing.js';
import type { LibraryProgram } from './libraries.js';

interface Pending {
  resolve: (values: string[]) => void;
  reject: (error: Error) => void;
}

const STDERR_MAX = 4_000;

export class Peer implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #pending = new Map<string, Pending>();
  #count = 0;
  #stderr = '';

  private constructor({ command, args, env }: LibraryProgram, connectString: string, sessionTimeoutMs: number) {
    this.#child = spawn(command, [...args, connectString, String(sessionTimeoutMs)], {
      env: { ...process.env, ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdin.on('error', () => undefined); // it has gone, which its exit tells
    this.#child.stderr.on(
      'data',
      (chunk: Buffer) => (this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_MAX)),
    );
    createInterface({ input: this.#child.stdout }).on('line', (line) => this.#answered(line));
    const endWithUs = (): void => void this.#child.kill('SIGKILL');
    process.once('exit', endWithUs);
    this.#child.once('exit', () => {
      process.off('exit', endWithUs);
      for (const { reject } of this.#pending.values()) reject(new Error(`the program has ended: ${this.#stderr}`));
      this.#pending.clear();
    });
  }

  /** Resolves when it has its session. */
  static async start(program: LibraryProgram, connectString: string, sessionTimeoutMs = 30_000): Promise<Peer> {
    const peer = new Peer(program, connectString, sessionTimeoutMs);
    await peer.#answer('0');
    return peer;
  }

  /** A recipe object of its library. */
  async make(kind: string, path: string, ...args: (string | number)[]): Promise<Thing> {
    const name = `thing${(this.#count += 1)}`;
    await this.tell(name, 'make', kind, path, ...args);
    return new Thing(this, name);
  }

  tell(thing: string, verb: string, ...args: (string | number)[]): Promise<string[]> {
    const id = String((this.#count += 1));
    const answer = this.#answer(id);
    this.#child.stdin.write(`${[id, thing, verb, ...args].join('\t')}\n`);
    return answer;
  }

  /** As a machine that loses its power: nothing is closed, and its session ends by its timeout. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await gone;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  #answer(id: string): Promise<string[]> {
    const answer = new Promise<string[]>((resolve, reject) => this.#pending.set(id, { resolve, reject }));
    answer.catch(() => undefined); // what still waits when the program is killed
    return answer;
  }

  #answered(line: string): void {
    const [id = '', how, ...values] = line.split('\t');
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (how === 'ok') pending?.resolve(values);
    else pending?.reject(new Error(values.join(' ')));
  }
}

export class Thing {
  constructor(
    readonly peer: Peer,
    readonly name: string,
  ) {}

  does(verb: string, ...args: (string | number)[]): Promise<string[]> {
    return this.peer.tell(this.name, verb, ...args);
  }

  /** The first value of the answer. */
  async says(verb: string, ...args: (string | number)[]): Promise<string | undefined> {
    return (await this.does(verb, ...args))[0];
  }
}

/** What was asked for, and whether it has come. */
export class Awaited<T> {
  done = false;
  readonly value: Promise<T>;

  constructor(value: Promise<T>) {
    this.value = value.then((result) => {
      this.done = true;
      return result;
    });
    this.value.catch(() => undefined); // seen when it is awaited
  }
}

/** Polls until it is so, with the patience that other processes need. */
export function soonSo<T>(what: string, condition: () => T | Promise<T>): ReturnType<typeof eventually<T>> {
  return eventually(what, condition, { withinMs: timing.processMs / 2 });
}
