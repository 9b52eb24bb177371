/**
 * The guardian: a process of its own that starts the job, and stops it when the lease may be lost. It has one job at a
 * time. Each has a state of its own, and orders with its number: one that comes late, for a job that is over, must not
 * be obeyed by the next.
 *
 * Guarantee: no job is started at the `termAt` that came with it, or later; and whatever becomes of the command
 * (killed, stopped by SIGSTOP, its event loop stuck), every process of the job's group has got SIGKILL at the last
 * `killAt` that it was told.
 * Not guaranteed: that a job in which somebody has made a session of their own (`setsid`) is stopped as a whole, or one
 * that runs as another user whom we may not signal; and nothing is, if the guardian and the command stand still. The
 * fencing token exists for these cases.
 *
 *   run ──▶ running ──stop, termAt, the command's death──▶ stopping ──killAt──▶ killed
 *              │ the job ended                                 │ nobody is left    │
 *              └────────────────────────▶ over ◀───────────────┴───────────────────┘
 *
 * Linux could end a job with the process that started it (PR_SET_PDEATHSIG). Node cannot ask for that, it would reach
 * one process and not the group, and it would not notice a command that stands still.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { environment } from '../environment.js';
import { sinceBootMs } from './clock.js';
import { groupLives, signalGroup } from './group.js';
import { UNANSWERED, type Bounds, type News, type Order, type Word } from './messages.js';

type Run = Extract<Order, { type: 'run' }>;

/** Timers stand still with the machine: the clock is looked at this often, ms. */
const LOOK_MS = 500;
/** The same while the job is on its way out. */
const LOOK_AT_THE_END_MS = 20;

class Guard {
  /** What it was told to run. */
  readonly #run: Run;
  #group = 0;
  #bounds: Bounds;
  #stopped: string | undefined;
  #killAt = Infinity;
  #killed = false;
  #passedOn = false;
  #ended: { code: number | null; signal: NodeJS.Signals | null } | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(run: Run) {
    this.#run = run;
    this.#bounds = run.bounds;
  }

  get job(): number {
    return this.#run.job;
  }

  obey(word: Word): void {
    switch (word.type) {
      case 'bounds':
        this.#bounds = word.bounds;
        return this.#look();
      case 'stop':
        return this.#stop(word.why, word.killAt);
      case 'signal':
        this.#passedOn = true;
        signalGroup(this.#group, word.signal);
        return this.#look();
    }
  }

  /** Nobody keeps the hold any more: the command has died. */
  orphaned(): void {
    if (this.#group === 0) process.exit();
    this.#stop('the command that kept its lock has died', sinceBootMs() + this.#run.killAfterMs);
  }

  start(): void {
    // It stood still since it was told to: the lease may be lost by now.
    if (sinceBootMs() >= this.#bounds.termAt)
      return this.#end({ type: 'over', code: null, signal: null, stopped: UNANSWERED });
    const { argv, env, input } = this.#run;
    const [file = '', ...args] = argv;
    const failed = (error: NodeJS.ErrnoException): void =>
      this.#end({ type: 'failed', code: error.code ?? '', sentence: error.message });
    let job: ChildProcess;
    try {
      job = spawn(file, args, {
        stdio: [input === undefined ? 'inherit' : 'pipe', 'inherit', 'inherit'],
        detached: true,
        env: { ...environment, ...env },
      });
    } catch (error) {
      return failed(error as NodeJS.ErrnoException);
    }
    if (job.pid === undefined) return void job.once('error', failed);
    this.#group = job.pid;
    job.stdin?.on('error', () => undefined); // it need not read what it is given
    job.stdin?.end(Buffer.from(input ?? '', 'base64'));
    tell({ type: 'started', pid: job.pid });
    job.once('exit', (code, signal) => {
      this.#ended = { code, signal };
      this.#look();
    });
    this.#look();
  }

  #stop(why: string, killAt: number): void {
    this.#killAt = Math.min(this.#killAt, killAt);
    if (this.#stopped === undefined) {
      this.#stopped = why;
      tell({ type: 'stopping', why });
      signalGroup(this.#group, 'SIGTERM');
    }
    this.#look();
  }

  #look(): void {
    clearTimeout(this.#timer);
    const now = sinceBootMs();
    if (this.#stopped === undefined && now >= this.#bounds.termAt) {
      return this.#stop(UNANSWERED, this.#bounds.killAt);
    }
    const killAt = Math.min(this.#killAt, this.#bounds.killAt);
    if (this.#stopped !== undefined && now >= killAt && !this.#killed) {
      this.#killed = true;
      signalGroup(this.#group, 'SIGKILL');
    }
    const ending = this.#stopped !== undefined || this.#passedOn;
    if (this.#ended !== undefined && !(ending && groupLives(this.#group))) {
      return this.#end({
        type: 'over',
        ...this.#ended,
        ...(this.#stopped !== undefined && { stopped: this.#stopped }),
      });
    }
    const next = this.#stopped === undefined ? this.#bounds.termAt : this.#killed ? Infinity : killAt;
    const most = ending && this.#ended !== undefined ? LOOK_AT_THE_END_MS : LOOK_MS;
    this.#timer = setTimeout(() => this.#look(), Math.max(1, Math.min(next - now, most)));
  }

  /** The guardian waits for another job; without a command there is none. */
  #end(news: News): void {
    clearTimeout(this.#timer);
    tell(news);
    if (!process.connected) process.exit();
    guard = undefined;
  }
}

/** To a command that is dead, nothing is told. */
function tell(news: News): void {
  if (process.connected) process.send?.(news, () => undefined);
}

function obey(order: Order): void {
  if (order.type === 'run') {
    guard = new Guard(order);
    guard.start();
  } else if (order.job === guard?.job) guard.obey(order);
}

/** Of the job that there is. */
let guard: Guard | undefined;
// Whoever sends these to all processes of a service must not end the guardian before the job.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const)
  process.on(signal, () => undefined);
process.on('message', obey);
process.once('disconnect', () => (guard === undefined ? process.exit() : guard.orphaned()));
