import type { Config } from '../config.js';

/** One worker's share of the replica's limits. */
export function shareOf(config: Config): Config {
  const of = (limit: number): number => Math.ceil(limit / config.workers);
  return {
    ...config,
    maxWaiters: of(config.maxWaiters),
    maxAttached: of(config.maxAttached),
    maxConnections: config.maxConnections === undefined ? undefined : of(config.maxConnections),
    maxWaitsPerPrincipal: of(config.maxWaitsPerPrincipal),
    maxStreamsPerPrincipal: of(config.maxStreamsPerPrincipal),
    maxLeasesPerPrincipal: of(config.maxLeasesPerPrincipal),
    maxBodyBytesAtOnce: of(config.maxBodyBytesAtOnce),
    maxAnswerBytesAtOnce: of(config.maxAnswerBytesAtOnce),
    maxBytesAhead: of(config.maxBytesAhead),
    maxWatchedKeys: of(config.maxWatchedKeys),
    rateLimit: of(config.rateLimit),
    rateBurst: of(config.rateBurst),
  };
}
