/**
 * `npm run build:client`: what `postern/client` is published as. One file for `import` and one for `require`, small
 * enough to be read by a program at its start, and the types for both: those of CommonJS have to lie in a folder whose
 * package.json says so. The types of the contract are a declaration file already, which the compiler does not copy.
 */
import { cp, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';

const BUILD_MS = 5 * 60_000;
/** Of each of the two files. */
const BYTES_MAX = 30_000;
const CONTRACT = join('http', 'contract', 'contract.d.ts');
const FORMATS = /** @type {const} */ ({ esm: 'module', cjs: 'commonjs' });

for (const [format, type] of Object.entries(FORMATS)) {
  const folder = join(ROOT, 'dist', format);
  const outfile = join(folder, 'client.js');
  await rm(folder, { recursive: true, force: true });
  await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/client/index.ts'],
    outfile,
    format: /** @type {'esm' | 'cjs'} */ (format),
    platform: 'node',
    target: 'node20',
    bundle: true,
    minify: true,
    sourcemap: true,
    logLevel: 'warning',
  });
  const { size } = await stat(outfile);
  if (size > BYTES_MAX) throw new Error(`${outfile} has ${size} bytes, ${BYTES_MAX} are the most`);
  await writeFile(join(folder, 'package.json'), `{ "type": "${type}" }\n`);
  const types = join(folder, 'types');
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { problem, output } = await run(process.execPath, [tsc, '-p', 'tsconfig.client.json', '--outDir', types], {
    timeoutMs: BUILD_MS,
    cwd: ROOT,
  });
  if (problem) throw new Error(`the types of the client: ${output.trim() || problem}`);
  await mkdir(join(types, 'http', 'contract'), { recursive: true });
  await cp(join(ROOT, 'src', CONTRACT), join(types, CONTRACT));
  console.log(`dist/${format}/client.js has ${size} bytes`);
}
