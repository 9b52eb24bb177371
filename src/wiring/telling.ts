/** What a replica reports about itself, gathered from all its workers: its metrics, and where requests wait. */
import { sharedFor } from '../http/frame/exposition.js';
import { aggregateMetrics, type MetricsTold } from '../metrics/aggregate.js';
import type { Metrics } from '../metrics/metrics.js';
import { ContendedNames } from '../recipes/waiting/contended-names.js';
import type { Contention, ContentionTold } from '../recipes/waiting/contention.js';
import type { Clock } from '../time.js';
import { Siblings } from '../workers/siblings.js';

export interface TellingOptions {
  readonly metrics: Metrics;
  readonly contention: Contention;
  /** How many names are labels of `postern_contended_waiters`. */
  readonly contendedLabels: number;
  /** Those of this process; undefined: there is one, and its metrics are `metrics`. */
  readonly told: (() => Promise<readonly MetricsTold[]>) | undefined;
  /** Sets the metrics of what is looked at rather than counted. */
  readonly tell: () => void;
  readonly clock: Clock;
  /** Of this replica. */
  readonly workers: number;
  /** How long `/metrics` may repeat the same answer, ms. */
  readonly expositionMs: number;
}

export interface Telling {
  /** All metrics in Prometheus' text format. */
  readonly exposition: () => Promise<Buffer>;
  /** Each worker's report for a namespace. */
  readonly contention: (namespace: string) => Promise<readonly (readonly ContentionTold[])[]>;
  close(): void;
}

export function tellingOf(options: TellingOptions): Telling {
  const { metrics, contention, clock, workers, expositionMs } = options;
  const contended = new ContendedNames(contention, metrics, options.contendedLabels);
  const tell = (): void => {
    contended.tell();
    options.tell();
  };
  const told = options.told ?? (async () => [await metrics.registry.getMetricsAsJSON()]);
  const siblings = new Siblings({
    metrics: () => {
      tell();
      return told();
    },
    contention: (namespace) => contention.tell(namespace as string),
  });
  const isAlone = workers === 1 && options.told === undefined;
  const exposition = sharedFor(expositionMs, clock, async () => {
    if (!isAlone) return aggregateMetrics((await siblings.gather<MetricsTold[]>('metrics')).flat());
    tell();
    return metrics.registry.metrics();
  });
  return {
    exposition,
    contention: (namespace) => siblings.gather<ContentionTold[]>('contention', namespace),
    close: () => siblings.close(),
  };
}
