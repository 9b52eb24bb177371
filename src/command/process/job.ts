/**
 * A job that runs under a hold, and not a moment longer.
 *
 * The TTL counts from when the last answered heartbeat was *sent*, because the gateway frees a hold no earlier. After
 * two thirds of it without another answer the job gets SIGTERM, after five sixths SIGKILL. The guardian keeps to these
 * instants by itself; whatever is known sooner is told to it. Should it stand still alone, the command kills both.
 */
import { EXIT } from '../exit.js';
import type { Output } from '../output.js';
import { showDuration } from '../arguments/duration.js';
import { sinceBootMs } from './clock.js';
import type { Ending, Guardian } from './guarded.js';
import { UNANSWERED, type Bounds } from './messages.js';
import { diesOf, type Interrupts } from './interrupts.js';

/** From `termAt` to `killAt`, of a TTL. */
const KILL_PER_TTL = 6;
/** How often it is looked whether a heartbeat was answered, of a TTL; what is seen late errs on the safe side. */
const LOOKS_PER_TTL = 30;

/** The gateway's clock, which says when a hold is taken, may be ahead: so much time a job has to end by itself, ms. */
const SOON_MS = 500;

/** What a job runs under. */
export interface Kept {
  /** Of everything that it needs: each aborts when that is gone, or may be. */
  readonly signals: readonly AbortSignal[];
  /** Two thirds of a TTL after the last answered heartbeat was sent, in ms from now. */
  readonly leftMs: () => number;
  readonly ttlMs: number;
}

export interface JobOptions {
  readonly guardian: Guardian;
  readonly kept: Kept;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** What it reads on standard input in place of that of the command. */
  readonly input?: Uint8Array | undefined;
  readonly interrupts: Interrupts;
  readonly output: Output;
  /** From SIGTERM to SIGKILL where the hold lives on, ms. */
  readonly killAfterMs: number;
  readonly maxHoldMs?: number | undefined;
  /** How much of that another job has had of the hold. */
  readonly heldMs?: number;
  /** Calls its argument when somebody asks for the hold; `breakInMs` says when it is taken, if it is. */
  readonly onAsked?: (asked: (why: string, breakInMs: number | undefined) => void) => void;
}

/** @returns how the job ended; nothing of it runs any more if it was stopped */
export async function runJob(options: JobOptions): Promise<Ending> {
  const { guardian, kept, argv, env, input, interrupts, output, killAfterMs, maxHoldMs, heldMs = 0 } = options;
  const gone = (): Error | undefined => kept.signals.find(({ aborted }) => aborted)?.reason as Error | undefined;
  // The guardian knows only that its bounds have passed.
  const known = (why: string): string => (why === UNANSWERED ? (gone()?.message ?? why) : why);
  const stopping = (guessed: string): void => {
    const why = known(guessed);
    output.tell('stopping', `${why}: stopping the job`, { why });
  };
  let bounds = boundsOf(kept);
  const running = guardian.run({ argv, env, input, bounds, killAfterMs, stopping });
  const stop = (why: string, withinMs: number): void => running.stop(why, sinceBootMs() + withinMs);

  const lookMs = kept.ttlMs / LOOKS_PER_TTL;
  const looking = setInterval(() => {
    if (gone() === undefined) running.keep((bounds = boundsOf(kept)));
    // The guardian should have done it. What it has told meanwhile is heard first, if this process stood still.
    else if (sinceBootMs() > bounds.killAt + lookMs) setImmediate(() => running.kill());
  }, lookMs);
  const look = (): void => {
    const reason = gone();
    if (reason !== undefined) stop(`the hold is gone (${reason.message})`, kept.ttlMs / KILL_PER_TTL);
  };
  for (const signal of kept.signals) signal.addEventListener('abort', look);
  look();
  options.onAsked?.((why, breakInMs = Infinity) => stop(why, Math.min(killAfterMs, Math.max(SOON_MS, breakInMs / 2))));
  const longest =
    maxHoldMs === undefined
      ? undefined
      : setTimeout(
          () => stop(`it has run for ${showDuration(maxHoldMs)}, the longest hold`, killAfterMs),
          Math.max(0, maxHoldMs - heldMs),
        );
  const pass = interrupts.passTo((signal) => running.signal(signal));
  try {
    const result = await running.ending;
    // What ended by itself after its hold was gone must not look as if it had held it to the end.
    const reason = gone();
    if (result.kind === 'ended' && reason !== undefined) return { kind: 'stopped', why: reason.message };
    return result.kind === 'stopped' ? { ...result, why: known(result.why) } : result;
  } finally {
    pass[Symbol.dispose]();
    clearInterval(looking);
    clearTimeout(longest);
    for (const signal of kept.signals) signal.removeEventListener('abort', look);
  }
}

function boundsOf(kept: Kept): Bounds {
  const termAt = sinceBootMs() + kept.leftMs();
  return { termAt, killAt: termAt + kept.ttlMs / KILL_PER_TTL };
}

/** @returns the exit code; where the job died of a signal that ends commands, this process does too */
export function endAs(ending: Ending, output: Output): number {
  switch (ending.kind) {
    case 'stopped':
      output.tell('stopped', `the job was stopped: ${ending.why}`, { why: ending.why, exitCode: EXIT.lost });
      return EXIT.lost;
    case 'failed':
      output.tell('failed', `the job cannot be started: ${ending.sentence}`, { code: ending.code });
      return ending.code === 'ENOENT' ? EXIT.notFound : EXIT.notExecutable;
    case 'ended':
      return ending.signal === null ? (ending.code ?? EXIT.unexpected) : diesOf(ending.signal);
  }
}
