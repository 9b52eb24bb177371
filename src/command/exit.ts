/** How the command ends: its exit codes, and the failure that carries one. */

/** After `sysexits.h`, where it has a code for it. */
export const EXIT = {
  ok: 0,
  /** The gateway has refused the request, or there is no such thing. */
  refused: 1,
  /** Wrong usage. */
  usage: 64,
  /** No gateway can be reached. */
  noGateway: 69,
  /** What the gateway answered is not understood. */
  unexpected: 70,
  /** The output is not whole: the disk is full, or nobody reads it any more. */
  notWritten: 73,
  /** There is no attempt left: retrying later does not help. */
  exhausted: 74,
  /** Not acquired in time, or not served. */
  notAcquired: 75,
  /** The hold was lost or taken back, and the job was stopped. */
  lost: 76,
  /** The credential is missing, wrong, or lacks a scope. */
  noPermission: 77,
  /** The job cannot be executed, as shells say it. */
  notExecutable: 126,
  /** There is no such job, as shells say it. */
  notFound: 127,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** What each code means, for the help and the documentation. */
export const EXIT_MEANINGS: readonly (readonly [ExitCode, string])[] = [
  [EXIT.ok, 'done'],
  [EXIT.refused, 'the gateway refused the request, or there is no such thing'],
  [EXIT.usage, 'wrong usage; the message names the flag or the argument'],
  [EXIT.noGateway, 'no gateway answered; the message names the address that was tried, and why it failed'],
  [EXIT.unexpected, 'an answer was not understood'],
  [EXIT.notWritten, 'the output was not written whole, as on a full disk, or behind a pipe that nobody reads any more'],
  [EXIT.exhausted, 'all attempts at the occurrence of a run have failed'],
  [EXIT.notAcquired, 'not acquired in time, or not served: it may be tried again later'],
  [EXIT.lost, 'the hold was lost, taken back or held for too long, and the job was stopped'],
  [EXIT.noPermission, 'the credential is missing, unreadable or wrong, or lacks the scope that the message names'],
  [EXIT.notExecutable, 'the job cannot be executed'],
  [EXIT.notFound, 'there is no such job'],
];

/** Ends the command with a sentence on standard error. */
export class Failure extends Error {
  constructor(
    readonly exitCode: number,
    sentence: string,
    /** For `--json`: what a program may want to know of it. */
    readonly details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(sentence, options);
  }
}

export class UsageError extends Failure {
  constructor(sentence: string) {
    super(EXIT.usage, sentence);
  }
}
