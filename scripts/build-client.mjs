/**
 * `npm run build:client`: what `postern/client` is published as, with its types. The types of the contract are a
 * declaration file already, which the compiler does not copy.
 */
import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { bundleClient, FORMATS } from './lib/client-bundle.mjs';
import { ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';

const BUILD_MS = 5 * 60_000;
const CONTRACT = join('http', 'contract', 'contract.d.ts');

for (const format of Object.keys(FORMATS)) await rm(join(ROOT, 'dist', format), { recursive: true, force: true });
await bundleClient(ROOT, (line) => console.log(line));
for (const format of Object.keys(FORMATS)) {
  const types = join(ROOT, 'dist', format, 'types');
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const { problem, output } = await run(process.execPath, [tsc, '-p', 'tsconfig.client.json', '--outDir', types], {
    timeoutMs: BUILD_MS,
    cwd: ROOT,
  });
  if (problem) throw new Error(`the types of the client: ${output.trim() || problem}`);
  await mkdir(join(types, 'http', 'contract'), { recursive: true });
  await cp(join(ROOT, 'src', CONTRACT), join(types, CONTRACT));
}
