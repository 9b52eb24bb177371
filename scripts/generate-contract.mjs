/**
 * Generates src/http/contract.d.ts from openapi.yaml. With --check it only compares: the exit code says whether it is current.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';

const CONTRACT = join(ROOT, 'openapi.yaml');
const TYPES = join(ROOT, 'src', 'http', 'contract.d.ts');
const GENERATOR = join(ROOT, 'node_modules', 'openapi-typescript', 'bin', 'cli.js');
const GENERATES_WITHIN_MS = 120_000;

const dir = await mkdtemp(join(tmpdir(), 'postern-contract-'));
try {
  const output = join(dir, 'contract.d.ts');
  const result = await run(process.execPath, [GENERATOR, CONTRACT, '--output', output], {
    timeoutMs: GENERATES_WITHIN_MS,
    cwd: ROOT,
  });
  if (result.problem) throw new Error(`${result.problem}\n${result.output}`);
  const types = await readFile(output, 'utf8');
  const current = await readFile(TYPES, 'utf8').catch(() => '');
  if (types === current) {
    console.log('src/http/contract.d.ts is current');
  } else if (process.argv.includes('--check')) {
    console.error('src/http/contract.d.ts does not fit openapi.yaml: run `npm run generate` and commit the result');
    process.exitCode = 1;
  } else {
    await writeFile(TYPES, types);
    console.log('src/http/contract.d.ts generated');
  }
} finally {
  await rm(dir, { recursive: true, force: true });
}
