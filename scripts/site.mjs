/**
 * `npm run site`: the documentation site, into `site/`, made of the Markdown files of the project by what is in
 * `docs/site`. It fails if a link, of this site or of a page, leads nowhere.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { checkNode, installPackages, ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';
import { linkProblems } from './lib/site-links.mjs';

const BUILD_MS = 2 * 60_000;
const OUTPUT = join(ROOT, 'site');
const MAKER = join(ROOT, 'docs', 'site');

try {
  checkNode();
  await installPackages((line) => console.log(line), MAKER);
  await rm(OUTPUT, { recursive: true, force: true });
  const eleventy = join(MAKER, 'node_modules', '@11ty', 'eleventy', 'cmd.cjs');
  const args = [eleventy, '--config=docs/site/eleventy.config.mjs', '--quiet'];
  const { problem, output } = await run(process.execPath, args, { timeoutMs: BUILD_MS, cwd: ROOT });
  if (problem) throw new Error(output);
  const { pages, problems } = await linkProblems(OUTPUT);
  if (problems.length > 0) throw new Error(problems.join('\n'));
  console.log(`${pages} pages: ${join(OUTPUT, 'index.html')}`);
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exit(1);
}
