/** The command's side of the guardian: it has a job run, and says until when that may go on. */
import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { signalGroup } from './group.js';
import type { Bounds, News, Order, Word } from './messages.js';

const GUARDIAN = fileURLToPath(new URL('./guardian.js', import.meta.url));

/** How a job ended. */
export type Ending =
  | { readonly kind: 'ended'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  /** It was stopped, and everything that it started is dead; or the guardian stands still, and will see to that. */
  | { readonly kind: 'stopped'; readonly why: string }
  /** It could not be started. */
  | { readonly kind: 'failed'; readonly code: string; readonly sentence: string };

export interface Job {
  readonly argv: readonly string[];
  /** Added to the environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly bounds: Bounds;
  /** From SIGTERM to SIGKILL if this process dies, ms. */
  readonly killAfterMs: number;
  /** What it reads on standard input in place of that of the command. */
  readonly input?: Uint8Array | undefined;
  /** The guardian stops the job of its own accord. */
  readonly stopping: (why: string) => void;
}

/** A job that was begun. What is said about it when it has ended reaches no other job. */
export interface Running {
  readonly ending: Promise<Ending>;
  /** The lease was prolonged. */
  keep(bounds: Bounds): void;
  /**
   * Ends it with SIGTERM.
   * @param killAt when SIGKILL follows, an instant of `sinceBootMs`
   */
  stop(why: string, killAt: number): void;
  /** Passes a signal on to it and all that it has started. */
  signal(signal: NodeJS.Signals): void;
  /** Ends it with SIGKILL, and the guardian too, which has not done so in time. */
  kill(): void;
}

/** A guardian process; another one for the next job if it has died. */
export class Guardian {
  #child: ChildProcess;
  /** Why there is no guardian any more. All that it has told was heard before. */
  #gone: string | undefined;
  #jobs = 0;
  /** Whether there is a job, or will be as soon as the guardian has started it. */
  #busy = false;
  #group = 0;
  #heard: (news: News) => void = () => undefined;
  #end: (ending: Ending) => void = () => undefined;

  constructor() {
    this.#child = this.#start();
  }

  /** One job after the other. */
  run({ stopping, input, ...job }: Job): Running {
    if (this.#gone !== undefined) this.#child = this.#start();
    this.#jobs += 1;
    const number = this.#jobs;
    this.#busy = true;
    this.#group = 0;
    const ending = new Promise<Ending>((resolve) => (this.#end = resolve));
    this.#heard = (news) => {
      if (news.type === 'started') this.#group = news.pid;
      else if (news.type === 'stopping') stopping(news.why);
      else {
        this.#busy = false;
        this.#group = 0;
        this.#end(endingOf(news));
      }
    };
    this.#tell({ type: 'run', job: number, ...job, input: input && Buffer.from(input).toString('base64') });
    const say = (word: Word): void => this.#tell({ ...word, job: number });
    return {
      ending,
      keep: (bounds) => say({ type: 'bounds', bounds }),
      stop: (why, killAt) => say({ type: 'stop', why, killAt }),
      signal: (signal) => say({ type: 'signal', signal }),
      kill: () => this.#jobs === number && this.#kill(),
    };
  }

  /** Without a job it is not needed. */
  dismiss(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  #kill(): void {
    if (!this.#busy) return;
    if (this.#group === 0) {
      // It may just have begun the job, and nobody else can end that: once it goes on, it starts none, or ends it.
      this.#child.unref();
      this.#child.disconnect();
      return;
    }
    signalGroup(this.#group, 'SIGKILL');
    this.#child.kill('SIGKILL');
  }

  #start(): ChildProcess {
    this.#gone = undefined;
    // A session of its own: what the terminal sends to the command must not reach it.
    const child = spawn(process.execPath, [GUARDIAN], {
      detached: true,
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    });
    child.on('message', (news: News) => this.#heard(news));
    const gone = (why: string): void => {
      if (child !== this.#child || this.#gone !== undefined) return;
      this.#gone = why;
      signalGroup(this.#group, 'SIGKILL');
      this.#end({ kind: 'stopped', why });
    };
    child.once('error', ({ message }) => gone(`the guardian did not start: ${message}`));
    child.once('disconnect', () => gone('the guardian has died'));
    return child;
  }

  #tell(order: Order): void {
    if (this.#child.connected) this.#child.send(order, () => undefined);
  }
}

function endingOf(news: Extract<News, { type: 'over' | 'failed' }>): Ending {
  if (news.type === 'failed') return { kind: 'failed', code: news.code, sentence: news.sentence };
  if (news.stopped !== undefined) return { kind: 'stopped', why: news.stopped };
  return { kind: 'ended', code: news.code, signal: news.signal };
}
