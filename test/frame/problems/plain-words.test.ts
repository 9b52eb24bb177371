/** Problems that say what was given, once, in whole sentences. */
import { expect, test } from 'vitest';
import { request } from 'undici';
import { NotHolderError } from '../../../src/errors.js';
import { startFrame } from '../harness.js';

test('a number of the wrong kind breaks one rule, and not that of its format as well', async () => {
  await using frame = await startFrame();
  const reply = await request(`${frame.url}/v1/counters/c/add`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"by":1.5}',
  });
  const detail = 'by is 1.5; it must be an integer.';
  expect(await reply.body.json()).toMatchObject({ code: 'invalid', detail, errors: [{ field: 'by', detail }] });
});

test.each([
  ['lock', undefined, 'lock "x" (nor waits for it) under the given holdId or requestId.'],
  ['election', undefined, 'election "x" (nor waits for it) under the given candidateId or requestId.'],
  ['the claim of a message of queue', 'claimId', 'the claim of a message of queue "x" under the given claimId.'],
])('not to hold a %s is said of what it was named by', (kind, by, words) => {
  expect(new NotHolderError(kind, 'x', by).message).toBe(`This lease does not hold ${words}`);
});
