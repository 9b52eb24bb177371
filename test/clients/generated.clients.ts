/**
 * What generators make of the contract compiles as it is, and works: each client takes a lock, understands that
 * the next one is refused, pushes bytes, and puts a key, at a gateway before a real ZooKeeper.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPair, type Pair } from '../support/start-gateway.js';
import { scaled } from '../support/timing.js';
import { GENERATORS } from './generators.js';

/** The first run gets the generators and compiles all that they need. */
const WITHIN_MS = scaled(240_000);
/** What no text is. */
const BYTES = Buffer.from([0, 0xff, 0xfe, 0x0a, 0x80]);

let pair: Pair;
beforeAll(async () => {
  pair = await startPair();
});
afterAll(() => pair[Symbol.asyncDispose]());

test.concurrent.each(Object.entries(GENERATORS))(
  'the client of %s compiles, and does what it says',
  { timeout: WITHIN_MS },
  async (generator, make) => {
    const { a, b } = pair;
    const driver = await make();
    const told = JSON.parse(await driver(a.url, generator, BYTES.toString('hex'))) as Record<string, unknown>;

    const { holders } = (await b.showLock(generator)) as { holders: { fencingToken: number; label: string }[] };
    expect(holders).toMatchObject([{ fencingToken: told['fencingToken'], label: 'held' }]);
    expect(told).toMatchObject({ refused: 'lock-held', pushed: 201 });

    const popped = await b.expect(200, 'POST', `/v1/queues/${generator}/pop`);
    expect(popped.items).toMatchObject([
      { bodyBase64: BYTES.toString('base64'), contentType: 'application/octet-stream' },
    ]);

    const key = await fetch(`${b.url}/v1/config/${generator}/primary`);
    expect(key.headers.get('etag')).toBe(`"${String(told['etag'])}"`);
    expect(Buffer.from(await key.arrayBuffer())).toEqual(BYTES);
  },
);
