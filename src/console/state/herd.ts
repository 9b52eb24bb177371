/** Reads what the herd factor is reckoned from. */
import { request } from '../api/request.js';
import { Refusal } from '../api/refusal.js';
import { countsIn, type Counts } from '../words/herd.js';
import { caller } from './session.js';

/** @returns undefined where the metrics have a port of their own */
export async function readCounts(signal: AbortSignal): Promise<Counts | undefined> {
  try {
    return countsIn(await (await request(caller(), { path: '/metrics', signal })).text());
  } catch (error) {
    if (error instanceof Refusal && error.problem.status === 404) return undefined;
    throw error;
  }
}
