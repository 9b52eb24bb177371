/** The lines of README.md's "From curl", for a gateway that may be elsewhere, want a key, or speak TLS. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from './install.mjs';

const BLOCK = /^```sh\nurl=\$\{POSTERN_URL:-http:\/\/127\.0\.0\.1:7070\}\n([\s\S]*?)^```$/m;

/** @param {{ url: string, needsKey: boolean }} options */
export async function linesToTry({ url, needsKey }) {
  const [, lines] = BLOCK.exec(await readFile(join(ROOT, 'README.md'), 'utf8')) ?? [];
  if (lines === undefined) throw new Error('README.md has no lines to try');
  // The certificate hardly names this address, at which nobody else can be.
  const options = `${url.startsWith('https:') ? ' -k' : ''}${needsKey ? ' -H "Authorization: Bearer $API_KEY"' : ''}`;
  return `url=${url}\n${lines.replaceAll('curl -s', `curl -s${options}`)}`;
}
