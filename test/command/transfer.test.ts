/** `postern transfer`. */
import { expect, test } from 'vitest';
import { startPair } from '../support/start-gateway.js';
import { LONG_MS, runCommand } from './run-command.js';

test('makes a candidate the leader, at once or when the leader has had its time', { timeout: LONG_MS }, async () => {
  await using pair = await startPair();
  const postern = async (...words: string[]): Promise<[code: number | null, output: string]> => {
    const run = runCommand(words, { url: pair.a.url });
    return [await run.code(), run.stdout];
  };
  const ids: string[] = [];
  for (const _ of [1, 2, 3]) {
    const { leaseToken } = await pair.a.createLease({ ttlMs: 60_000 });
    const { body } = await pair.a.call('POST', '/v1/elections/site/campaign', { body: {}, leaseToken });
    ids.push((body as { candidateId: string }).candidateId);
  }
  const [, second = '', third = ''] = ids;
  expect(await postern('transfer', 'site', second, '--grace', '1h', '--reason', 'noon')).toEqual([
    0,
    expect.stringMatching(/^leads at 20\S+, or when the leader resigns; 0 overtaken\n$/),
  ]);
  expect(await postern('transfer', 'site', third)).toEqual([0, 'leads; 1 overtaken\n']);
  const { leader } = (await pair.b.expect(200, 'GET', '/v1/elections/site')) as { leader: unknown };
  expect(leader).toMatchObject({ candidateId: third });
  expect((await postern('transfer', 'site', second))[0]).toBe(1);
  expect((await postern('transfer', 'site'))[0]).toBe(64);
});
