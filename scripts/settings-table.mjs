/**
 * Writes the table of settings into docs/settings.md, between its `<!-- settings -->` markers.
 * With --check it only says whether the page is current, by its exit code.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { tsImport } from 'tsx/esm/api';

const PAGE = fileURLToPath(new URL('../docs/settings.md', import.meta.url));
const MARKER = '<!-- settings -->';

const { settingsMarkdown } = await tsImport('../src/config.ts', import.meta.url);
const before = await readFile(PAGE, 'utf8');
const parts = before.split(MARKER);
if (parts.length !== 3)
  fail(`docs/settings.md must have the marker ${MARKER} exactly twice; it has it ${parts.length - 1} times.`);

const text = [parts[0], `\n\n${settingsMarkdown()}\n\n`, parts[2]].join(MARKER);
const after = await format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE });

if (process.argv.includes('--check')) {
  if (after !== before)
    fail('The table of settings in docs/settings.md is not current; run: node scripts/settings-table.mjs');
} else if (after !== before) {
  await writeFile(PAGE, after);
}

function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
