/**
 * Generates openapi.yaml from the parts in openapi/, and src/http/contract/contract.d.ts from openapi.yaml.
 * With --check it only compares: the exit code says whether both are current.
 *
 * The types are those of the gateway, which fills in the defaults of a body (`x-default`) before anybody reads it.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleContract } from './lib/contract-bundle.mjs';
import { ROOT } from './lib/install.mjs';
import { run } from './lib/run.mjs';

const GENERATOR = join(ROOT, 'node_modules', 'openapi-typescript', 'bin', 'cli.js');
const GENERATES_WITHIN_MS = 120_000;

const contract = await bundleContract();
await keepCurrent('openapi.yaml', contract, 'openapi/');
await keepCurrent('src/http/contract/contract.d.ts', await typesOf(contract), 'openapi.yaml');

/**
 * @param {string} file
 * @param {string} wanted
 * @param {string} source what it is generated from
 */
async function keepCurrent(file, wanted, source) {
  const path = join(ROOT, file);
  const current = await readFile(path, 'utf8').catch(() => '');
  if (wanted === current) {
    console.log(`${file} is current`);
  } else if (process.argv.includes('--check')) {
    const lines = current.split('\n');
    const line = wanted.split('\n').findIndex((one, index) => one !== lines[index]) + 1;
    const what = `from line ${line} on it is not what ${source} makes of it`;
    console.error(`${file}: ${what}. Edit ${source}, run \`npm run generate\`, and commit both`);
    process.exitCode = 1;
  } else {
    await writeFile(path, wanted);
    console.log(`${file} generated`);
  }
}

/** @param {string} text */
async function typesOf(text) {
  const dir = await mkdtemp(join(tmpdir(), 'postern-contract-'));
  try {
    const output = join(dir, 'contract.d.ts');
    const filledIn = join(dir, 'openapi.yaml');
    await writeFile(filledIn, text.replaceAll('x-default:', 'default:'));
    const result = await run(process.execPath, [GENERATOR, filledIn, '--output', output], {
      timeoutMs: GENERATES_WITHIN_MS,
      cwd: ROOT,
    });
    if (result.problem) throw new Error(`${result.problem}\n${result.output}`);
    return await readFile(output, 'utf8');
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
