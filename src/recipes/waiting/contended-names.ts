/**
 * Which names are contended, for the metrics: the few with the longest lines in this process, so that the labels stay
 * few at any moment, and over time.
 */
import { KINDS } from '../../metrics/labels.js';
import type { Metrics } from '../../metrics/metrics.js';
import { HOUR } from '../../time.js';
import type { Contention, Waited } from './contention.js';

/**
 * So many times the names at a moment may be told of within an hour. Names that take turns at the top would otherwise
 * make series without end: Prometheus keeps each for hours.
 */
const PER_HOUR = 10;

type Gauges = Pick<Metrics, 'contendedWaiters' | 'oldestWaitSeconds'>;

export class ContendedNames {
  readonly #contention: Contention;
  readonly #metrics: Gauges;
  readonly #namesMax: number;
  /** When each name was last told of, monotonic; the least recent first. */
  readonly #toldAt = new Map<string, number>();

  /** @param namesMax at a moment; 0: names are no labels */
  constructor(contention: Contention, metrics: Gauges, namesMax: number) {
    this.#contention = contention;
    this.#metrics = metrics;
    this.#namesMax = namesMax;
  }

  /** Called before each reading of the metrics. @param now monotonic */
  tell(now = performance.now()): void {
    const { contendedWaiters, oldestWaitSeconds } = this.#metrics;
    const waited = this.#contention.waitedFor();
    for (const kind of KINDS) {
      const longest = waited.reduce((ms, one) => (one.kind === kind ? Math.max(ms, one.oldestWaitMs) : ms), 0);
      oldestWaitSeconds.set({ kind }, longest / 1_000);
    }
    contendedWaiters.reset(); // who does not wait any more is not told of
    for (const { kind, namespace, name, waiting } of this.#chosen(waited, now))
      contendedWaiters.inc({ namespace, kind, name }, waiting);
  }

  #chosen(waited: readonly Waited[], now: number): Waited[] {
    for (const [key, at] of this.#toldAt) {
      if (now - at < HOUR) break;
      this.#toldAt.delete(key);
    }
    const chosen: Waited[] = [];
    for (const one of waited) {
      if (chosen.length === this.#namesMax) break;
      const key = JSON.stringify([one.kind, one.namespace, one.name]);
      if (!this.#toldAt.delete(key) && this.#toldAt.size >= PER_HOUR * this.#namesMax) continue;
      this.#toldAt.set(key, now);
      chosen.push(one);
    }
    return chosen;
  }
}
