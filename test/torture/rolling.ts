/** What is done to all replicas in turn, as a deployment does it. */
import { readFile, writeFile } from 'node:fs/promises';
import { scaled } from '../support/timing.js';
import { newLeaseKey, type Stage } from './stage.js';

/** A replica drains for two seconds. */
const ENDS_WITHIN_MS = scaled(20_000);
/** Those that sealed before: tokens of leases that are in use were sealed by one of them. */
const KEYS_KEPT = 3;

/** @throws Error when one does not end by itself, or is not ready again */
export async function restartAll(stage: Stage): Promise<void> {
  for (const replica of stage.replicas) {
    await replica.up(); // one that was killed has just been started
    const code = await replica.end(ENDS_WITHIN_MS);
    await replica.start();
    if (code !== 0) throw new Error(`${replica.name} was told to end, and ended with ${code}`);
    await replica.ready();
  }
}

/** First all can open what the new key seals, then all seal with it. */
export async function rotateKeys(stage: Stage): Promise<void> {
  const keys = (await readFile(stage.leaseKeysFile, 'utf8')).split(',').slice(0, KEYS_KEPT);
  const key = newLeaseKey();
  for (const ring of [
    [...keys, key],
    [key, ...keys],
  ]) {
    await writeFile(stage.leaseKeysFile, ring.join(','));
    await restartAll(stage);
  }
}
