/**
 * The codes of problems that the client acts on are codes that the gateway gives. The contract leaves them open, so
 * that a new one breaks no client: its types cannot tell a code that is gone.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { ERROR_CODES } from '../../src/errors.js';

const CLIENT = fileURLToPath(new URL('../../src/client', import.meta.url));

async function codesActedOn(): Promise<string[]> {
  const files = (await readdir(CLIENT, { recursive: true })).filter((file) => file.endsWith('.ts'));
  const texts = await Promise.all(files.map((file) => readFile(join(CLIENT, file), 'utf8')));
  return texts.flatMap((text) =>
    [...text.matchAll(/(?<!typeof [\w.]*)\bcode (?:===|!==) '([^']*)'/g)].map(([, code]) => code as string),
  );
}

it('the client acts on no code of a problem that the gateway does not give', async () => {
  const codes = await codesActedOn();
  expect(codes).toContain('lock-held');
  expect(codes.filter((code) => !(code in ERROR_CODES))).toEqual([]);
});
