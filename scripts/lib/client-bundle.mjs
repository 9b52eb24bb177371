/**
 * The client as it is published: one file for `import` and one for `require`, small enough to be read by a program at
 * its start. Those of CommonJS, and their types, have to lie in a folder whose package.json says so.
 */
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

/** Of each of the two files. */
const BYTES_MAX = 39_000;
const LINE_CHARACTERS = 200;
export const FORMATS = /** @type {const} */ ({ esm: 'module', cjs: 'commonjs' });

/**
 * @param {string} root of the repository
 * @param {(line: string) => void} log
 */
export async function bundleClient(root, log) {
  for (const [format, type] of Object.entries(FORMATS)) {
    const folder = join(root, 'dist', format);
    const outfile = join(folder, 'client.js');
    await mkdir(folder, { recursive: true });
    await build({
      absWorkingDir: root,
      entryPoints: ['src/client/index.ts'],
      outfile,
      format: /** @type {'esm' | 'cjs'} */ (format),
      platform: 'node',
      target: 'node20',
      bundle: true,
      minify: true,
      lineLimit: LINE_CHARACTERS, // an uncaught error shows the whole line that threw it
      sourcemap: true,
      logLevel: 'warning',
    });
    const { size } = await stat(outfile);
    if (size > BYTES_MAX) throw new Error(`${outfile} has ${size} bytes, ${BYTES_MAX} are the most`);
    await writeFile(join(folder, 'package.json'), `{ "type": "${type}" }\n`);
    log(`dist/${format}/client.js has ${size} bytes`);
  }
}
