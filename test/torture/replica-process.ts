/** A replica of the torture: a process of its own that is killed, stopped and told things, and whose log is a file. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { env } from 'node:process';
import { eventually } from '../support/eventually.js';
import { standStill } from '../support/stand-still.js';
import { timing } from '../support/timing.js';

export interface ReplicaProcessOptions {
  /** The `main.js` of the build. */
  main: string;
  port: number;
  logFile: string;
  environment: Record<string, string>;
  /** Modules that are loaded before it. */
  preload?: readonly string[];
}

export class ReplicaProcess {
  readonly url: string;
  #child: ChildProcess | undefined;
  #endsAsTold = false;
  /** How it ended when nobody had told it to. */
  readonly unexpectedEnds: string[] = [];

  constructor(
    readonly name: string,
    readonly options: ReplicaProcessOptions,
  ) {
    this.url = `http://127.0.0.1:${options.port}`;
  }

  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error(`${this.name} is not running`);
    return pid;
  }

  async start(): Promise<void> {
    const { main, port, environment, preload = [], logFile } = this.options;
    const log = openSync(logFile, 'a');
    const args = [...preload.flatMap((module) => ['--import', module]), main];
    const child = spawn(process.execPath, args, {
      env: { PATH: env['PATH'], POSTERN_PORT: String(port), ...environment },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    await once(child, 'spawn');
    this.#child = child;
    this.#endsAsTold = false;
    const endWithUs = (): void => void child.kill('SIGKILL');
    process.once('exit', endWithUs);
    child.once('exit', (code, signal) => {
      process.off('exit', endWithUs);
      if (!this.#endsAsTold)
        this.unexpectedEnds.push(`${this.name} ended by itself (${signal ?? `exit code ${code}`})`);
    });
  }

  /** Resolves when it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    this.#endsAsTold = true;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  }

  /** Tells it to end. @returns its exit code, or what killed it in the end */
  async end(withinMs: number): Promise<number | string> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null)
      return 'nothing: it had ended before';
    this.#endsAsTold = true;
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), withinMs);
    await gone.finally(() => clearTimeout(timer));
    return child.exitCode ?? child.signalCode ?? '';
  }

  pause(): void {
    standStill(this.pid);
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  /** Resolves when it says that it is ready. */
  ready(): Promise<void> {
    return this.#answers('/readyz', 'is ready');
  }

  /** Resolves when it listens: from then on it heeds what it is told. */
  up(): Promise<void> {
    return this.#answers('/healthz', 'is up');
  }

  async #answers(path: string, what: string): Promise<void> {
    const isOk = async (): Promise<boolean> => {
      const signal = AbortSignal.timeout(timing.eventuallyMs);
      return (await fetch(this.url + path, { headers: { connection: 'close' }, signal })).status === 200;
    };
    await eventually(`${this.name} ${what}`, isOk, { withinMs: timing.processMs, everyMs: 50 });
  }

  /** The lines of its log that are of this level. */
  logged(...levels: string[]): string[] {
    const lines = readFileSync(this.options.logFile, 'utf8').split('\n');
    const wanted = new RegExp(`^\\{"level":"(${levels.join('|')})"`);
    // What is no JSON did not come from the log: a crash.
    return lines.filter((line) => wanted.test(line) || (line !== '' && !line.startsWith('{')));
  }
}
