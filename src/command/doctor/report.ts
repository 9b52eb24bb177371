/** What `postern doctor` has found out, step by step. */
import { EXIT, type ExitCode } from '../exit.js';
import type { Output } from '../output.js';

export interface Finding {
  readonly step: string;
  /** `warning`: it works, and somebody should look at it. */
  readonly state: 'ok' | 'warning' | 'failed';
  readonly message: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** A step that failed: those that need it are not tried. */
export class StepFailed extends Error {
  constructor(
    readonly exitCode: ExitCode,
    sentence: string,
    readonly advice?: string,
  ) {
    super(sentence);
  }
}

/** What a step that succeeded has to say. */
export type Said = string | { readonly warning: string; readonly advice?: string };

const MARKS = { ok: 'ok     ', warning: 'warning', failed: 'FAILED ' } as const;

export class Report {
  readonly findings: Finding[] = [];
  #exitCode: ExitCode = EXIT.ok;
  readonly #output: Output;

  constructor(output: Output) {
    this.#output = output;
  }

  /** That of the first failure. */
  get exitCode(): ExitCode {
    return this.#exitCode;
  }

  /**
   * Does one step and reports it.
   * @returns what `work` returned besides the sentence, or undefined if it failed
   */
  async step<T>(step: string, work: () => Promise<{ said: Said; value: T }>): Promise<T | undefined> {
    try {
      const { said, value } = await work();
      if (typeof said === 'string') this.#add({ step, state: 'ok', message: said });
      else this.#add({ step, state: 'warning', message: said.warning, ...(said.advice && { advice: said.advice }) });
      return value;
    } catch (error) {
      const { message, advice, exitCode } =
        error instanceof StepFailed ? error : { message: String(error), advice: undefined, exitCode: EXIT.unexpected };
      this.#add({ step, state: 'failed', message, ...(advice !== undefined && { advice }) });
      if (this.#exitCode === EXIT.ok) this.#exitCode = exitCode;
      return undefined;
    }
  }

  /** All findings as one JSON value; people have seen them as they came. */
  finish(): ExitCode {
    if (this.#output.json)
      this.#output.result({ healthy: this.#exitCode === EXIT.ok, findings: this.findings }, () => '');
    return this.#exitCode;
  }

  #add(finding: Finding): void {
    this.findings.push(finding);
    if (this.#output.json) return;
    const advice = finding.advice === undefined ? '' : `\n           ${finding.advice}`;
    this.#output.lines(`${MARKS[finding.state]}  ${finding.step}: ${finding.message}${advice}`);
  }
}
