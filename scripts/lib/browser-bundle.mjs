/** The scripts of the pages that a replica serves, each as one small file: `dist/browser/docs.js`. */
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

/** Of each file: it is read before a page does anything. */
const BYTES_MAX = 20_000;
const SCRIPTS = { docs: 'src/browser/docs/main.ts' };

/** @param {string} root of the repository */
export async function bundleBrowser(root) {
  const outdir = join(root, 'dist', 'browser');
  await rm(outdir, { recursive: true, force: true });
  await build({
    absWorkingDir: root,
    entryPoints: SCRIPTS,
    outdir,
    format: 'iife',
    platform: 'browser',
    target: 'es2022',
    bundle: true,
    minify: true,
    logLevel: 'warning',
  });
  for (const name of Object.keys(SCRIPTS)) {
    const { size } = await stat(join(outdir, `${name}.js`));
    if (size > BYTES_MAX) throw new Error(`${name}.js has ${size} bytes, ${BYTES_MAX} are the most`);
  }
}
