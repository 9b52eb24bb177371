/** The metrics of several processes as those of one: counters and most gauges are summed, others as their declaration says. */
import { AggregatorRegistry, Registry, type MetricObjectWithValues, type MetricValue } from 'prom-client';

/** What one process tells of its metrics; JSON can carry it. */
export type MetricsTold = readonly MetricObjectWithValues<MetricValue<string>>[];

export const EXPOSITION_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/** @returns the text that Prometheus reads */
export function aggregateMetrics(told: readonly MetricsTold[]): Promise<string> {
  return AggregatorRegistry.aggregate([...told]).metrics();
}
