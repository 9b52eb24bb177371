/** Aggregates the metrics of several processes: counters and most gauges are summed, others as declared. */
import { AggregatorRegistry, Registry, type MetricObjectWithValues, type MetricValue } from 'prom-client';

/** The metrics of one process, in a form that JSON can carry. */
export type MetricsTold = readonly MetricObjectWithValues<MetricValue<string>>[];

export const EXPOSITION_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** @returns Prometheus' text format */
export function aggregateMetrics(told: readonly MetricsTold[]): Promise<string> {
  return AggregatorRegistry.aggregate([...told]).metrics();
}
