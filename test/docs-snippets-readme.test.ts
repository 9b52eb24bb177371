/** What README.md and docs/curl.md show, pasted for the second time, and where credentials are needed. */
import { expect, test } from 'vitest';
import { makeApiKeys } from './support/http/api-keys.js';
import { pages, run } from './support/snippets.js';
import { startReplica } from './support/start-gateway.js';
import { scaled } from './support/timing.js';

const LONG_MS = scaled(60_000);

async function blocksOf(page: string): Promise<string[]> {
  return (await pages()).find(({ name }) => name === page)?.blocks ?? [];
}

test('what README.md shows can be pasted again at once', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  const blocks = (await blocksOf('README.md')).filter((block) => !block.startsWith('npm '));
  const outputs: string[] = [];
  for (const _time of [1, 2]) {
    const { code, output } = await run(blocks, replica.url);
    expect(code, output).toBe(0);
    expect(output).toContain('"name":"backup","held":true');
    outputs.push(output);
  }
  expect(
    outputs.map((output) => output.includes('backing up\n')),
    'the job that is to run once did',
  ).toEqual([true, false]);
});

test('what docs/curl.md shows can be pasted again at once', { timeout: LONG_MS }, async () => {
  await using replica = await startReplica();
  const blocks = await blocksOf('docs/curl.md');
  const transactions = new Set<string | undefined>();
  for (const _time of [1, 2]) {
    const { code, output } = await run(blocks, replica.url);
    expect(code, output).toBe(0);
    expect(output).toMatch(/"claimId":"[^"]*","status":200/);
    const decided =
      /"transactionId":"([^"]*)"[^{}]*"state":"committed"|"state":"committed"[^{}]*"transactionId":"([^"]*)"/;
    const [, before, behind] = decided.exec(output) ?? [];
    transactions.add(before ?? behind);
  }
  expect(transactions.size, 'each time another transaction was decided').toBe(2);
  expect(transactions).not.toContain(undefined);
});

test(
  'the job of README.md that is to run once does, and only for who may know of it',
  { timeout: LONG_MS },
  async () => {
    const job = (await blocksOf('README.md')).filter((block) => block.includes('--guard "lock=backup'));
    expect(job.length).toBe(1);
    const locks: Record<string, ('use' | 'read')[]> = { lease: ['use'], lock: ['use', 'read'] };
    await using keys = await makeApiKeys({
      blind: { default: locks },
      reader: { default: { ...locks, config: ['read'] } },
      cron: { default: { ...locks, config: ['read', 'use'] } },
    });
    await using replica = await startReplica({ settings: { POSTERN_AUTH_FILE: keys.file } });
    const runAs = (key: string): ReturnType<typeof run> => run(job, replica.url, { POSTERN_API_KEY: key });
    const keyOf = (principal: string): string => keys.as(principal, replica.url).key;

    const blind = await runAs(keyOf('blind'));
    expect(blind.code, blind.output).toBe(1);
    expect(blind.output).toContain('the credential does not allow this');
    expect(blind.output).not.toContain('backing up');
    const wrong = await runAs('wrong');
    expect(wrong.code, wrong.output).toBe(77);
    // A run that can leave no word of itself has failed: the next one repeats it.
    const reader = await runAs(keyOf('reader'));
    expect(reader.output).toContain('backing up');
    expect(reader.code, reader.output).not.toBe(0);

    const first = await runAs(keyOf('cron'));
    expect(first.code, first.output).toBe(0);
    expect(first.output).toMatch(/backing up\n"[^"]+"\n$/);
    expect(await runAs(keyOf('cron'))).toEqual({ code: 0, output: '' });
  },
);
