/**
 * Writes docs/command.md from the help of the command `postern`, between its `<!-- help -->` markers. With --check it
 * only says whether the page is current, by its exit code.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';
import { tsImport } from 'tsx/esm/api';

const PAGE = fileURLToPath(new URL('../docs/command.md', import.meta.url));
const MARKER = '<!-- help -->';

const { COMMANDS } = await tsImport('../src/command/table.ts', import.meta.url);
const { helpOfAll, ownHelpOf } = await tsImport('../src/command/arguments/help.ts', import.meta.url);

const before = await readFile(PAGE, 'utf8');
const parts = before.split(MARKER);
if (parts.length !== 3)
  fail(`docs/command.md must have the marker ${MARKER} twice; it has it ${parts.length - 1} times`);

const block = (/** @type {string} */ title, /** @type {string} */ text) => `## ${title}\n\n\`\`\`text\n${text}\n\`\`\``;
const sections = [
  block('postern', helpOfAll(COMMANDS)),
  ...COMMANDS.map((/** @type {{ name: string }} */ command) => block(`postern ${command.name}`, ownHelpOf(command))),
];
const text = [parts[0], `\n\n${sections.join('\n\n')}\n\n`, parts[2]].join(MARKER);
const after = await format(text, { ...(await resolveConfig(PAGE)), filepath: PAGE });

if (process.argv.includes('--check')) {
  if (after !== before) fail('docs/command.md is not current; run: node scripts/command-page.mjs');
} else if (after !== before) {
  await writeFile(PAGE, after);
}

/** @param {string} sentence */
function fail(sentence) {
  process.stderr.write(`${sentence}\n`);
  process.exit(1);
}
