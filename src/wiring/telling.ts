/** What a replica reports about itself, gathered from all its workers: its metrics, and where requests wait. */
import { sharedFor } from '../http/frame/exposition.js';
import { aggregateMetrics, type MetricsTold } from '../metrics/aggregate.js';
import type { Metrics } from '../metrics/metrics.js';
import { ContendedNames } from '../recipes/waiting/contended-names.js';
import type { Contention, ContentionTold } from '../recipes/waiting/contention.js';
import type { Clock } from '../time.js';
import { Siblings } from '../workers/siblings.js';
import type { ControlSession } from '../zookeeper/control-session.js';

export interface TellingOptions {
  readonly metrics: Metrics;
  readonly contention: Contention;
  /** How many names are labels of `postern_contended_waiters`. */
  readonly contendedLabels: number;
  readonly control: Pick<ControlSession, 'groupCommit' | 'lastZxid'>;
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
  const registry = (): Metrics['registry'] => {
    contended.tell();
    metrics.zookeeperGroupCommitQueue.set(options.control.groupCommit.waiting);
    metrics.fencingTokenHighest.set(options.control.lastZxid);
    return metrics.registry;
  };
  const siblings = new Siblings({
    metrics: () => registry().getMetricsAsJSON(),
    contention: (namespace) => contention.tell(namespace as string),
  });
  const exposition = sharedFor(expositionMs, clock, async () =>
    workers === 1 ? registry().metrics() : aggregateMetrics(await siblings.gather<MetricsTold>('metrics')),
  );
  return {
    exposition,
    contention: (namespace) => siblings.gather<ContentionTold[]>('contention', namespace),
    close: () => siblings.close(),
  };
}
