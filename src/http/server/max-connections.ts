/**
 * How many client connections a process may have. Strangers can open them without a credential, and a process without
 * free descriptors cannot reach ZooKeeper either: its leases would end.
 */
import { readFileSync } from 'node:fs';
import type { Config } from '../../config.js';

/** For files, listeners, the operations port and the sessions that belong to no lease. */
const RESERVE = 512;
/** If `POSTERN_MAX_ATTACHED` is out of proportion to the limit, clients still get this part. */
const LEAST_PART = 1 / 4;
/** If the system does not tell: the smallest common limit. */
const ASSUMED = 10_240;

/** On the operations port, which is for probes and scrapers. */
export const OPS_CONNECTIONS_MAX = 256;

/**
 * The number of client connections that a replica with these settings allows at once; by default the number of
 * descriptors left beside the connections to ZooKeeper.
 * @param ensembles the number of them: each may have as many sessions
 * @param descriptors the process's limit; Infinity: none
 */
export function maxConnectionsOf(
  { maxConnections, maxAttached }: Pick<Config, 'maxConnections' | 'maxAttached'>,
  ensembles: number,
  descriptors = descriptorLimit(),
): number {
  const left = descriptors - RESERVE - maxAttached * ensembles;
  return maxConnections ?? Math.max(left, Math.floor(descriptors * LEAST_PART));
}

/** Node raises its own soft limit to the hard one at its start, before this is read. */
function descriptorLimit(): number {
  try {
    const soft = /^Max open files +(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return soft === 'unlimited' ? Infinity : Number(soft ?? ASSUMED);
  } catch {
    return ASSUMED;
  }
}
