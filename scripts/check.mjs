/**
 * `npm run check`: everything that is known without running the product. All steps run, so that one round of fixing is
 * enough.
 */
import { join } from 'node:path';
import { checkNode, installPackages, ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';

const STEP_MS = 10 * 60_000;

const bin = (/** @type {string[]} */ ...path) => join(ROOT, 'node_modules', ...path);
const tsc = bin('typescript', 'bin', 'tsc');
const script = (/** @type {string} */ name) => join(ROOT, 'scripts', name);

const STEPS = [
  { name: 'types', args: [tsc, '--noEmit'] },
  { name: 'types of the pages', args: [tsc, '--noEmit', '-p', 'src/browser/tsconfig.json'] },
  { name: 'types of the console', args: [tsc, '--noEmit', '-p', 'src/console'] },
  { name: 'types of the browser tests', args: [tsc, '--noEmit', '-p', 'test/browser/tsconfig.json'] },
  { name: 'types of the scripts', args: [tsc, '-p', 'scripts/tsconfig.json'] },
  { name: 'types of the site', args: [tsc, '-p', 'docs/site/tsconfig.json'] },
  { name: 'types of the examples', args: [tsc, '-p', 'examples/tsconfig.json'] },
  { name: 'lint, layers, rooms, lengths', args: [bin('eslint', 'bin', 'eslint.js'), '.', '--max-warnings=0'] },
  { name: 'no circles, no crowded folders, no exceptions without need', args: [script('rooms.mjs')] },
  { name: 'format', args: [bin('prettier', 'bin', 'prettier.cjs'), '--check', '--log-level=warn', '.'] },
  { name: 'contract lints clean', args: [bin('@redocly', 'cli', 'bin', 'cli.js'), 'lint', 'openapi.yaml'] },
  { name: 'the bundled contract and its types are current', args: [script('generate-contract.mjs'), '--check'] },
  { name: 'one version everywhere', args: [script('release.mjs'), '--check'] },
  { name: 'the table of settings is current', args: [script('settings-table.mjs'), '--check'] },
  { name: 'the page of the command is current', args: [script('command-page.mjs'), '--check'] },
  { name: 'the dashboard is current', args: [script('dashboard.mjs'), '--check'] },
];

try {
  checkNode();
  await installPackages((line) => console.log(line));
} catch (error) {
  console.error(/** @type {Error} */ (error).message);
  process.exit(1);
}

const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
const failed = [];
for (const { name, args } of STEPS) {
  const start = performance.now();
  const { problem, output } = await run(process.execPath, args, { timeoutMs: STEP_MS, cwd: ROOT, env });
  const seconds = ((performance.now() - start) / 1_000).toFixed(1);
  console.log(`${problem ? 'FAILED' : 'ok    '}  ${name} (${seconds} s)`);
  if (problem) {
    failed.push(name);
    console.log(output.trim().replace(/^/gm, '        '));
  }
}
console.log(failed.length > 0 ? `check failed: ${failed.join('; ')}` : 'check passed');
process.exit(failed.length > 0 ? 1 : 0);
