/** Aggregates the metrics of several processes: counters and most gauges are summed, others as declared. */
import { AggregatorRegistry, Registry, type MetricObjectWithValues, type MetricValue } from 'prom-client';

/** The metrics of one process, in a form that JSON can carry. */
export type MetricsTold = readonly MetricObjectWithValues<MetricValue<string>>[];

export const EXPOSITION_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** @returns Prometheus' text format */
export function aggregateMetrics(told: readonly MetricsTold[]): Promise<string> {
  return AggregatorRegistry.aggregate([...told]).metrics();
}

/** Of the process, not of one of its ensembles. */
const OF_PROCESS = /^postern_(process|nodejs|http|overload|build_info|ensemble|contended|oldest_wait)/;
/** Some refusals are the process's, some an ensemble's. */
const OF_BOTH = 'postern_limit_refusals_total';

/** What a process with several ensembles tells of itself. */
export function toldOfProcess(told: MetricsTold): MetricsTold {
  return told.filter(({ name }) => OF_PROCESS.test(name) || name === OF_BOTH);
}

/** What it tells of one of them, with its name as a label. */
export function toldOfEnsemble(told: MetricsTold, ensemble: string): MetricsTold {
  return told
    .filter(({ name }) => !OF_PROCESS.test(name))
    .map((metric) => ({
      ...metric,
      values: metric.values.map((value) => ({ ...value, labels: { ...value.labels, ensemble } })),
    }));
}
