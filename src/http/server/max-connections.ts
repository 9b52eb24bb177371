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

/** The number of client connections that a replica with these settings allows at once. */
export function maxConnectionsOf(config: Pick<Config, 'maxConnections' | 'maxAttached'>): number {
  return config.maxConnections ?? defaultMaxConnections(config.maxAttached);
}

/**
 * The number of descriptors left beside the connections to ZooKeeper.
 * @param descriptors the process's limit; Infinity: none
 */
export function defaultMaxConnections(maxAttached: number, descriptors = descriptorLimit()): number {
  return Math.max(descriptors - RESERVE - maxAttached, Math.floor(descriptors * LEAST_PART));
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
