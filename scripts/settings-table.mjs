/**
 * Writes the table of settings into README.md, between its `<!-- settings -->` markers.
 * With --check it only says whether the README is current, by its exit code.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { tsImport } from 'tsx/esm/api';

const README = fileURLToPath(new URL('../README.md', import.meta.url));
const MARKER = '<!-- settings -->';

const { settingsMarkdown } = await tsImport('../src/config.ts', import.meta.url);
const before = await readFile(README, 'utf8');
const parts = before.split(MARKER);
if (parts.length !== 3)
  fail(`README.md must have the marker ${MARKER} exactly twice; it has it ${parts.length - 1} times.`);

const text = [parts[0], `\n\n${settingsMarkdown()}\n\n`, parts[2]].join(MARKER);
const after = await format(text, { ...(await resolveConfig(README)), filepath: README });

if (process.argv.includes('--check')) {
  if (after !== before) fail('The table of settings in README.md is not current; run: node scripts/settings-table.mjs');
} else if (after !== before) {
  await writeFile(README, after);
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
