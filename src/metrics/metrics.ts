/**
 * The metrics of one process: those of `table.ts` in a registry of its own, set to zero where the label values are
 * known (`labels.ts`).
 */
import { Registry, collectDefaultMetrics } from 'prom-client';
import { TABLE } from './table.js';

export { LATE } from './labels.js';
export type { AcquireOutcome, ConfigWriteOutcome, CounterOutcome, Kind, Late, QueueOp } from './labels.js';

/**
 * Misleading or costly metrics of prom-client: gauges named like counters, and two that walk every open socket at each
 * scrape to report what `active_resources` reports.
 */
const UNWANTED = [
  'active_handles',
  'active_handles_total',
  'active_requests',
  'active_requests_total',
  'active_resources_total',
];

type Table = typeof TABLE;

export type Metrics = { readonly registry: Registry } & { readonly [K in keyof Table]: ReturnType<Table[K]> };

export interface MetricsOptions {
  version: string;
  /** Node's own process metrics; off in tests that count handles. */
  processMetrics?: boolean;
}

export function createMetrics({ version, processMetrics = true }: MetricsOptions): Metrics {
  const registry = new Registry();
  const made = Object.entries(TABLE).map(([name, make]) => [name, make(registry)] as const);
  const metrics = { registry, ...Object.fromEntries(made) } as Metrics;
  metrics.buildInfo.set({ version, node: process.version }, 1);
  if (processMetrics) {
    collectDefaultMetrics({ register: registry, prefix: 'postern_' });
    for (const name of UNWANTED) registry.removeSingleMetric(`postern_nodejs_${name}`);
  }
  return metrics;
}
