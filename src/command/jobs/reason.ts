/** Why a job has not succeeded, for whoever is shown that. */
import type { Ending } from '../process/guarded.js';

export function reasonOf(ending: Ending): string {
  if (ending.kind === 'stopped') return ending.why;
  if (ending.kind === 'failed') return ending.sentence;
  return ending.signal === null ? `exit code ${ending.code}` : `ended by ${ending.signal}`;
}
