/** Signals that are sent to the command: they are passed on to the job, or end what comes before it. */
import { constants } from 'node:os';

const PASSED_ON = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** Those that whoever started the command may have to see it die of: a shell's loop ends only then. */
const FATAL: readonly string[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const SIGNALLED = 128;
const DEATH_MS = 100;

/** The command was told to end before there was a job. */
export class Interrupted extends Error {
  constructor(readonly signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
  }
}

export class Interrupts implements Disposable {
  readonly #controller = new AbortController();
  readonly #handlers = PASSED_ON.map((signal) => [signal, (): void => this.#caught(signal)] as const);
  readonly #jobs = new Set<(signal: NodeJS.Signals) => void>();

  constructor() {
    for (const [signal, handler] of this.#handlers) process.on(signal, handler);
  }

  /** Aborts with an {@link Interrupted} when the command is told to end, whether there is a job or not. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Signals are for this job too, until that is disposed of. */
  passTo(pass: (signal: NodeJS.Signals) => void): Disposable {
    this.#jobs.add(pass);
    return { [Symbol.dispose]: () => void this.#jobs.delete(pass) };
  }

  #caught(signal: NodeJS.Signals): void {
    for (const pass of this.#jobs) pass(signal);
    // Others end a command only where there is nobody whom they may be meant for.
    if (FATAL.includes(signal) || this.#jobs.size === 0) this.#controller.abort(new Interrupted(signal));
  }

  [Symbol.dispose](): void {
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
  }
}

/** Ends this process as the signal would, or says with which exit code shells report it. */
export function diesOf(signal: NodeJS.Signals): number {
  if (FATAL.includes(signal)) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // Another thread may have to take it; and the first process of a container is not ended by any.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DEATH_MS);
  }
  return SIGNALLED + constants.signals[signal];
}
