/**
 * What it means that nobody has answered: there is no gateway, or there is one that its ZooKeeper does not serve. It
 * waits for that longer than its callers wait for it; so it is asked for something that needs no ZooKeeper.
 */
import { Postern, PosternError, type PosternOptions } from '../client/index.js';
import type { CommonValues } from './arguments/command.js';
import { environment } from './environment.js';
import { EXIT, Failure } from './exit.js';
import { clientOptions } from './gateway.js';

/** A gateway says within this time whether it is ready, ms. */
const READY_MS = 2_000;

/** @returns a Failure that says so if the error is silence and a gateway is there; the error otherwise */
export async function explained(error: unknown, values: CommonValues): Promise<unknown> {
  if (!(error instanceof PosternError && error.status === 0 && error.code === 'unreachable')) return error;
  const options = clientOptions(values, environment);
  const there = await Promise.all(options.urls.map((url) => isThere({ ...options, urls: [url] })));
  if (!there.includes(true)) return error;
  const sentence = `the gateway is there, and did not serve the request: ${error.message}`;
  return new Failure(EXIT.notAcquired, sentence, { code: 'unavailable' }, { cause: error });
}

async function isThere(options: PosternOptions): Promise<boolean> {
  await using postern = new Postern({ ...options, patienceMs: 0 });
  try {
    await postern.request('GET /readyz', { signal: AbortSignal.timeout(READY_MS) });
    return true;
  } catch (error) {
    return error instanceof PosternError && error.problem !== undefined; // it says why it is not ready
  }
}
