/**
 * Writes `scripts/with-lock.sh` into the ConfigMap of helm/examples/cronjob.yaml; `--check` only says whether it is the
 * same.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './lib/install.mjs';

const SCRIPT = join(ROOT, 'scripts', 'with-lock.sh');
const EXAMPLE = join(ROOT, 'helm', 'examples', 'cronjob.yaml');
const BLOCK = /(?<= {2}with-lock\.sh: \|\n)(?: {4}.*\n|\n)*/;

const [script, example] = await Promise.all([readFile(SCRIPT, 'utf8'), readFile(EXAMPLE, 'utf8')]);
if (!BLOCK.test(example)) throw new Error(`${EXAMPLE} has no with-lock.sh in its ConfigMap`);
const current = example.replace(BLOCK, () => script.replace(/^(?=.)/gm, '    '));
if (process.argv.includes('--check')) {
  if (current !== example) {
    console.error('helm/examples/cronjob.yaml has another with-lock.sh; run: node scripts/cronjob-example.mjs');
    process.exit(1);
  }
} else await writeFile(EXAMPLE, current);
