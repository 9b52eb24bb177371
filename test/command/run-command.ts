/** Runs of `postern` as people start it: a process of its own, real signals. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { env, execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.js';
import { scaled } from '../support/timing.js';

export const MAIN = fileURLToPath(new URL('../../dist/command/main.js', import.meta.url));
/** Longer than a job takes to be stopped after its gateway has gone, with the TTLs of these tests. */
export const LONG_MS = scaled(60_000);

export interface Options {
  url?: string;
  stdin?: string;
  settings?: Record<string, string>;
  /** Started by this program, with these arguments before those of the command. */
  through?: readonly string[];
}

/** One run of the command. */
export class Run {
  stdout = '';
  stderr = '';
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;

  constructor(readonly child: ChildProcess) {
    child.stdout?.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    child.stderr?.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    // `close`: also nobody holds its output any more.
    this.ended = once(child, 'close').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
    }));
  }

  get pid(): number {
    return this.child.pid as number;
  }

  async code(): Promise<number | null> {
    return (await this.ended).code;
  }

  untilSays(pattern: RegExp): Promise<RegExpExecArray> {
    return eventually(`it says ${pattern}: ${this.stderr}`, () => pattern.exec(`${this.stdout}${this.stderr}`), {
      withinMs: LONG_MS,
    });
  }

  /** The process id that its job has printed as `pid …`. */
  async job(): Promise<number> {
    return Number((await this.untilSays(/pid (\d+)/))[1]);
  }
}

export function runCommand(words: readonly string[], options: Options = {}): Run {
  const { url, stdin, settings, through = [] } = options;
  const [program = execPath, ...first] = [...through, execPath, MAIN, ...words];
  const child = spawn(program, first, {
    env: { PATH: env['PATH'], ...(url !== undefined && { POSTERN_URL: url }), ...settings },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined); // a job need not read what it is given
  child.stdin.end(stdin ?? '');
  return new Run(child);
}

/** A job that says its process id, and ends by SIGKILL only. */
export const STUBBORN = ['sh', '-c', 'trap "" TERM INT; echo "pid $$"; while :; do sleep 0.1; done'];

/** Whether it runs: what has ended, and was not collected by its parent, does not. */
export function runs(pid: number): boolean {
  const state = statOf(pid)?.[0];
  return state !== undefined && state !== 'Z';
}

/** Whether it has nothing to do at this moment. */
export function isIdle(pid: number): boolean {
  return statOf(pid)?.[0] === 'S';
}

/** The processes whose parent it is. */
export function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((id) => statOf(id)?.[1] === String(pid));
}

/** Its program and arguments, as everybody on the machine may list them. */
export function commandLineOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
}

/** What /proc says of a process behind its name: state, parent, group. */
function statOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
