/** What the command and the guardian tell each other, over the channel that Node gives a child process. */

/** Until when the lease certainly lives, as instants of {@link sinceBootMs}. */
export interface Bounds {
  /** The job gets SIGTERM unless the bounds have moved by then. */
  readonly termAt: number;
  /** The job gets SIGKILL: early enough that it is dead before anybody else can be granted its lock. */
  readonly killAt: number;
}

/** Why a job is stopped, or not started, at its bounds. The command may know more. */
export const UNANSWERED = 'no heartbeat was answered in time';

export type Order =
  | {
      readonly type: 'run';
      /** Its number, which no other job of this guardian has. */
      readonly job: number;
      readonly argv: readonly string[];
      /** Added to the environment. */
      readonly env: Readonly<Record<string, string>>;
      readonly bounds: Bounds;
      /** From SIGTERM to SIGKILL if the command itself dies, ms. */
      readonly killAfterMs: number;
      /** In base64, what the job reads on standard input in place of that of the command. */
      readonly input?: string | undefined;
    }
  | (Word & { readonly job: number });

/** What is said about a job that runs. */
export type Word =
  | { readonly type: 'bounds'; readonly bounds: Bounds }
  | { readonly type: 'stop'; readonly why: string; readonly killAt: number }
  | { readonly type: 'signal'; readonly signal: NodeJS.Signals };

export type News =
  | { readonly type: 'started'; readonly pid: number }
  /** The job could not be started. */
  | { readonly type: 'failed'; readonly code: string; readonly sentence: string }
  /** The guardian stops the job of its own accord. */
  | { readonly type: 'stopping'; readonly why: string }
  /** The job has ended, and if it was stopped or sent a signal, so has everything that it started. */
  | {
      readonly type: 'over';
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
      /** Why it was stopped, if it was. */
      readonly stopped?: string;
    };
