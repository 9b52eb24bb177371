/** Runs of `scripts/with-lock.sh`: a real shell, a real curl. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { env } from 'node:process';
import { fileURLToPath } from 'node:url';
import { eventually } from '../support/eventually.js';
import { scaled } from '../support/timing.js';

const SCRIPT = fileURLToPath(new URL('../../scripts/with-lock.sh', import.meta.url));
/** Longer than the script takes to stop a command after its gateway has gone, with the shortest TTL. */
export const LONG_MS = scaled(60_000);
export const SHORTEST_TTL = ['-t', '10'];

export interface Options {
  url: string;
  shell?: string;
  stdin?: string;
  settings?: Record<string, string>;
}

/** One run of the script. */
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

  async code(): Promise<number | null> {
    return (await this.ended).code;
  }

  untilSays(text: string): Promise<unknown> {
    return eventually(`it says "${text}"`, () => this.stdout.includes(text) || `${this.stdout}${this.stderr}`, {
      withinMs: LONG_MS,
    }).then((found) => {
      if (found !== true) throw new Error(String(found));
    });
  }
}

export function runWithLock(args: readonly string[], { url, shell = 'sh', stdin, settings }: Options): Run {
  const [program = '', ...first] = shell.split(' ');
  const child = spawn(program, [...first, SCRIPT, ...args], {
    env: { PATH: env['PATH'], POSTERN_URL: url, ...settings },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  child.stdin.on('error', () => undefined); // a command need not read what it is given
  child.stdin.end(stdin ?? '');
  return new Run(child);
}

/** A command that says its process id, and ends by `kill -9` only. */
export const STUBBORN = ['sh', '-c', 'trap "" TERM INT; echo "pid $$"; while :; do sleep 0.1; done'];

export async function pidOf(run: Run): Promise<number> {
  await eventually('the command runs', () => /pid \d+/.test(run.stdout), { withinMs: LONG_MS });
  return Number(/pid (\d+)/.exec(run.stdout)?.[1]);
}

export function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
