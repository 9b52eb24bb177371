/** The script of the pages as it was built (`scripts/lib/browser-bundle.mjs`), from `src/browser/docs`. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ROOT } from '../../../root.js';
import type { Source } from '../asset.js';

const FILE = fileURLToPath(new URL('dist/browser/docs.js', ROOT));

export function docsScript(): Source {
  return { status: 200, contentType: 'text/javascript; charset=utf-8', body: readFileSync(FILE, 'utf8') };
}
