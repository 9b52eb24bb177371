/** The command's side of the guardian: it has a job run, and says until when that may go on. */
import { spawn, type ChildProcess } from 'node:child_process';
import { execPath } from 'node:process';
import { fileURLToPath } from 'node:url';
import { signalGroup } from './group.js';
import type { Bounds, News, Order } from './messages.js';

const GUARDIAN = fileURLToPath(new URL('./guardian.js', import.meta.url));

/** How a job ended. */
export type Ending =
  | { readonly kind: 'ended'; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  /** It was stopped, and everything that it started is dead. */
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

/** A guardian process. */
export class Guardian {
  readonly #child: ChildProcess;
  /** Why there is no guardian any more. All that it has told was heard before. */
  readonly #gone: Promise<string>;
  #group = 0;
  #heard: (news: News) => void = () => undefined;

  constructor() {
    // A session of its own: what the terminal sends to the command must not reach it.
    this.#child = spawn(execPath, [GUARDIAN], { detached: true, stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
    this.#child.on('message', (news: News) => this.#heard(news));
    this.#gone = new Promise((resolve) => {
      this.#child.once('error', ({ message }) => resolve(`the guardian did not start: ${message}`));
      this.#child.once('disconnect', () => resolve('the guardian has died'));
    });
  }

  /** One job after the other. */
  async run({ stopping, input, ...job }: Job): Promise<Ending> {
    const ending = new Promise<Ending>((resolve) => {
      this.#heard = (news) => {
        if (news.type === 'started') this.#group = news.pid;
        else if (news.type === 'stopping') stopping(news.why);
        else resolve(endingOf(news));
      };
      void this.#gone.then((why) => {
        signalGroup(this.#group, 'SIGKILL');
        resolve({ kind: 'stopped', why });
      });
    });
    this.#tell({ type: 'run', ...job, input: input && Buffer.from(input).toString('base64') });
    return ending.finally(() => (this.#group = 0));
  }

  /** The lease was prolonged. */
  keep(bounds: Bounds): void {
    this.#tell({ type: 'bounds', bounds });
  }

  /**
   * Ends the job with SIGTERM.
   * @param killAt when SIGKILL follows, an instant of `sinceBootMs`
   */
  stop(why: string, killAt: number): void {
    this.#tell({ type: 'stop', why, killAt });
  }

  /** Passes a signal on to the job and all that it has started. */
  signal(signal: NodeJS.Signals): void {
    this.#tell({ type: 'signal', signal });
  }

  /** Without a job it is not needed. */
  dismiss(): void {
    if (this.#child.connected) this.#child.disconnect();
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
