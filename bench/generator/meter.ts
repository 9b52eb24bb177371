/**
 * What is counted between the end of the warm-up and the end of the job.
 *
 *   warming ──(warmUpSeconds)──▶ measuring ──(seconds)──▶ over
 *
 * Clients go on in all three until they see `over`; only what ends while it is measuring counts.
 */
import { usage } from '../processes.js';
import { quantile } from '../statistics.js';
import type { Job, Measured } from './job.js';

const VIOLATIONS_SHOWN = 5;
const OPERATIONS_WITHIN_MS = 120_000;
const OPERATIONS_POLL_MS = 5;

export class Meter {
  over = false;
  /** Operations since the start, counted or not. */
  total = 0;
  readonly figures: Record<string, number> = {};
  readonly #job: Job;
  readonly #times: number[] = [];
  readonly #violations: string[] = [];
  #measuring = false;
  #operations = 0;
  #errors = 0;
  #firstError = '';
  #startedAt = 0;
  #seconds = 0;
  #before: Record<string, number> = {};
  #cpu: Record<string, number> = {};
  #memory: Record<string, number> = {};

  constructor(job: Job) {
    this.#job = job;
  }

  /** Resolves when it is over. */
  async run(): Promise<void> {
    const { operations } = this.#job;
    if (operations !== undefined) return this.#runFor(operations.warmUp, operations.measured);
    await sleep(this.#job.warmUpSeconds * 1_000);
    this.begin();
    await sleep(this.#job.seconds * 1_000);
    this.end();
  }

  /** For work that has an end of its own; `run` calls both for all other. */
  begin(): void {
    this.#before = this.#cpuNow();
    this.#startedAt = performance.now();
    this.#measuring = true;
  }

  end(): void {
    this.#measuring = false;
    this.over = true;
    this.#seconds = (performance.now() - this.#startedAt) / 1_000;
    const after = this.#cpuNow();
    this.#cpu = Object.fromEntries(
      Object.entries(after).map(([role, seconds]) => [role, seconds - (this.#before[role] ?? 0)]),
    );
    this.#memory = Object.fromEntries(
      Object.entries(this.#job.pids).map(([role, pid]) => [role, usage(pid).rssKiB] as const),
    );
  }

  /** @param from `performance.now()` of when it began, or was to begin */
  done(from: number, operations = 1): void {
    this.total += operations;
    if (!this.#measuring) return;
    this.#times.push(performance.now() - from);
    this.#operations += operations;
  }

  /** A request that was not answered as it should have been. */
  error(what: unknown): void {
    this.#errors += 1;
    if (this.#firstError === '') this.#firstError = what instanceof Error ? what.message : String(what);
  }

  /** A promise that was broken. */
  violation(sentence: string): void {
    this.#violations.push(sentence);
  }

  result(): Measured {
    const violations = this.#violations.slice(0, VIOLATIONS_SHOWN);
    if (this.#violations.length > violations.length) violations.push(`and ${this.#violations.length} in all`);
    if (this.#errors > 0) violations.push(`${this.#errors} errors, the first: ${this.#firstError}`);
    return {
      operations: this.#operations,
      seconds: this.#seconds,
      rate: this.#operations / this.#seconds,
      p50: quantile(this.#times, 0.5),
      p99: quantile(this.#times, 0.99),
      errors: this.#errors,
      violations,
      cpu: Object.fromEntries(
        Object.entries(this.#cpu).map(([role, seconds]) => [role, (seconds / this.#operations) * 1e6]),
      ),
      generatorLoad: (this.#cpu['generator'] ?? 0) / this.#seconds,
      memory: this.#memory,
      figures: this.figures,
    };
  }

  async #runFor(warmUp: number, measured: number): Promise<void> {
    const until = async (total: number): Promise<void> => {
      const deadline = performance.now() + OPERATIONS_WITHIN_MS;
      while (this.total < total && performance.now() < deadline) await sleep(OPERATIONS_POLL_MS);
      if (this.total < total) this.violation(`${this.total} of ${total} operations within ${OPERATIONS_WITHIN_MS} ms`);
    };
    await until(warmUp);
    this.begin();
    await until(warmUp + measured);
    this.end();
  }

  #cpuNow(): Record<string, number> {
    const all = Object.entries(this.#job.pids).map(([role, pid]) => [role, usage(pid).cpuSeconds] as const);
    const { user, system } = process.cpuUsage();
    return { ...Object.fromEntries(all), generator: (user + system) / 1e6 };
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
