/** An answer with many values of many small parts holds up nobody else. */
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { put } from '../client.js';

const KEYS = 64;
const PARTS = 5_000;
/** Of the processor: whoever has to wait for the event loop once more does not notice. */
const TURN_MS = 40;

/** The most time of the processor that one turn of the event loop takes until `done`. */
async function longestTurn(done: Promise<unknown>): Promise<number> {
  let isDone = false;
  void done.finally(() => (isDone = true));
  let longest = 0;
  while (!isDone) {
    const before = process.cpuUsage();
    await setImmediate();
    const { user, system } = process.cpuUsage(before);
    longest = Math.max(longest, (user + system) / 1_000);
  }
  return longest;
}

test('it is put into words in several turns', { timeout: scaled(60_000) }, async () => {
  await using replica = await startReplica();
  const keys = Array.from({ length: KEYS }, (_, i) => `parts${i}`);
  const value = JSON.stringify(Array.from({ length: PARTS }, () => ({})));
  for (const key of keys) await put(replica, key, Buffer.from(value), { type: 'application/json' });
  const read = async (): Promise<string> => {
    const body = JSON.stringify({ keys });
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${replica.url}/v1/config/read`, { method: 'POST', headers, body })).text();
  };
  expect((await read()).split(value).length).toBe(KEYS + 1);
  let longest = Infinity;
  for (let tries = 0; tries < 5; tries += 1) longest = Math.min(longest, await longestTurn(read()));
  expect(longest).toBeLessThan(TURN_MS);
});
