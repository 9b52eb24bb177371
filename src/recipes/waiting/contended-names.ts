/**
 * Which names are contended, for the metrics: the few with the longest lines in this process, so that the labels stay
 * few.
 */
import type { Metrics } from '../../metrics/metrics.js';
import type { Contention } from './contention.js';

const NAMES_MAX = 10;

/** Before each reading of the metrics. */
export function tellContendedNames(contention: Contention, { contendedWaiters }: Metrics): void {
  contendedWaiters.reset(); // who does not wait any more is not told of
  for (const { kind, namespace, name, waiting } of contention.longest(NAMES_MAX))
    contendedWaiters.inc({ kind, name: namespace === 'default' ? name : `${namespace}/${name}` }, waiting);
}
