/**
 * The web console as it is served: a page, a script and a style sheet, with the licences of the libraries in them. The
 * gateway compresses them when they are first asked for.
 */
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';
import { licences } from './licences.mjs';

/** Of everything that the page loads, compressed. */
const BYTES_MAX = 150_000;

/**
 * @param {string} root of the repository
 * @param {(line: string) => void} log
 */
export async function bundleConsole(root, log) {
  const outdir = join(root, 'dist', 'console');
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { app: 'src/console/main.tsx' },
    outdir,
    tsconfig: 'src/console/tsconfig.json',
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    bundle: true,
    metafile: true,
    minify: true,
    legalComments: 'none', // licences.txt has them in full
    logLevel: 'warning',
  });
  await copyFile(join(root, 'src', 'console', 'index.html'), join(outdir, 'index.html'));
  const files = await Promise.all(['index.html', 'app.js', 'app.css'].map((name) => readFile(join(outdir, name))));
  const bytes = files.reduce((sum, file) => sum + brotliCompressSync(file).length, 0);
  if (bytes > BYTES_MAX) throw new Error(`the console has ${bytes} bytes compressed, ${BYTES_MAX} are the most`);
  await writeFile(join(outdir, 'licences.txt'), await licences(root, metafile));
  log(`dist/console has ${bytes} bytes compressed`);
}
