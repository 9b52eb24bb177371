/** Everything that the load counts. */
import type { Answer } from '../generator/http-connection.js';
import type { Told } from './work.js';

const VIOLATIONS_MAX = 20;

export class Tally {
  leases = 0;
  heartbeats = 0;
  handoffs = 0;
  pushed = 0;
  acknowledged = 0;
  /** Of every recipe, and on so many objects. */
  operations = 0;
  objects = 0;
  /** Answers that left open whether anything was done. */
  unknown = 0;
  readonly #refusals: Record<string, number> = {};
  readonly #violations: string[] = [];

  refused({ status, body }: Answer): void {
    let code = '';
    try {
      const problem = JSON.parse(body) as { code?: string; detail?: string };
      // Of a fault the number matters that ZooKeeper answered with.
      code = `${problem.code ?? ''}${status === 500 ? ` (${problem.detail ?? ''})` : ''}`;
    } catch {
      // Not a problem; the status says enough.
    }
    if (code === 'outcome-unknown') this.unknown += 1;
    const what = `${status} ${code}`.trim();
    this.#refusals[what] = (this.#refusals[what] ?? 0) + 1;
  }

  violation(sentence: string): void {
    if (this.#violations.length < VIOLATIONS_MAX) this.#violations.push(sentence);
  }

  told(): Told {
    const { leases, heartbeats, handoffs, pushed, acknowledged, operations, objects } = this;
    return {
      ...{ leases, heartbeats, handoffs, pushed, acknowledged, operations, objects },
      refusals: { ...this.#refusals },
      violations: [...this.#violations],
    };
  }
}
