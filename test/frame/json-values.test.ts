/** How many values a JSON body may have is what its setting says, and what the refusal and the status say. */
import { expect, it } from 'vitest';
import { held, send } from './client.js';
import { startFrame } from './harness.js';

it('refuses a JSON body with more values than the setting allows, and says how many that is', async () => {
  await using frame = await startFrame({ config: { maxJsonValues: 1_000 }, routes: { acquireLock: held } });
  const status = await send(frame.url, 'get', '/v1/status');
  expect((status.body as { limits: unknown }).limits).toMatchObject({ maxJsonValues: 1_000 });
  const acquire = async (values: number): Promise<unknown> => {
    const body = JSON.stringify({ labels: Array(values - 3).fill(0) }); // the object, the name and the list
    const { status, body: answer } = await send(frame.url, 'post', '/v1/locks/a/acquire', (test) =>
      test.set('Content-Type', 'application/json').send(body),
    );
    return { status, ...(answer as object) };
  };
  expect(await acquire(1_001)).toMatchObject({ status: 413, code: 'too-large', maxJsonValues: 1_000 });
  expect(await acquire(1_000)).toMatchObject({ status: 422 }); // read, and held against the contract
});
