/** What a replica keeps of large values for as long as somebody watches their keys. */
import { test } from 'vitest';
import { eventually } from '../../../support/eventually.js';
import { EventReader } from '../../../support/http/event-stream.js';
import { startReplica } from '../../../support/start-gateway.js';
import { scaled } from '../../../support/timing.js';
import { memoryInUse } from '../../../support/usage.js';
import { put } from '../client.js';

const MIB = 1_048_576;
const KEYS = 32;
const LARGE = Buffer.alloc(960 * 1024, 'a');

test('not the values themselves, which no event shows', { timeout: scaled(60_000) }, async () => {
  await using replica = await startReplica();
  const names = Array.from({ length: KEYS }, (_, i) => `large${i}`);
  for (const name of names) await put(replica, name, LARGE);
  const before = memoryInUse().arrayBuffers;
  const watched = names.map((name) => `config:${name}`).join(',');
  await using stream = await EventReader.open(replica.url, `/v1/events?watch=${watched}`);
  const told = (): number => JSON.stringify(stream.seen).split(`"bytes":${LARGE.length}`).length - 1;
  await eventually('all values have been read', () => told() >= KEYS);
  await eventually('little of them is left', () => memoryInUse().arrayBuffers - before < 4 * MIB);
});
