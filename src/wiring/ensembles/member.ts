/** One of the ensembles of a process, with the map that is stored there. */
import type { ServedEnsemble } from '../served-ensemble.js';
import type { StoredMap } from './stored-map.js';

export interface Member {
  readonly name: string;
  readonly ensemble: ServedEnsemble;
  readonly stored: StoredMap;
}

/** Whether its map has been read and may be written. */
export function isUsable({ ensemble, stored }: Member): boolean {
  return ensemble.readiness.ready && stored.isTrusted;
}
