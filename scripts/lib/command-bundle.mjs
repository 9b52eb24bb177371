/**
 * The command as it is run: a few files, because Node takes about a millisecond for each, and a command that is run for
 * a moment starts with all of them. `main` starts the guardian before `run`, which has all the rest, is read.
 */
import { chmod, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as esbuild from 'esbuild';

/**
 * Who imports `node:process` has all its properties read, also `stdin` and `stdout`: Node then makes these pipes
 * non-blocking, also for the job that shares them, whose output is cut. The global object is the same without that.
 * @type {import('esbuild').Plugin}
 */
const plainProcess = {
  name: 'process without its streams',
  setup(build) {
    build.onResolve({ filter: /^(node:)?process$/ }, () => ({ path: 'process', namespace: 'global' }));
    build.onLoad({ filter: /^/, namespace: 'global' }, () => ({ contents: 'module.exports = globalThis.process;' }));
  },
};

/** @param {string} root of the repository */
export async function bundleCommand(root) {
  const outdir = join(root, 'dist', 'command');
  await rm(outdir, { recursive: true, force: true });
  await esbuild.build({
    absWorkingDir: root,
    entryPoints: {
      main: 'src/command/main.ts',
      run: 'src/command/run.ts',
      guardian: 'src/command/process/guardian.ts',
    },
    outdir,
    // Files of their own: the one is read while the guardian starts, the other belongs to the gateway too.
    external: ['./run.js', '../version.js'],
    format: 'esm',
    platform: 'node',
    target: 'node20',
    plugins: [plainProcess],
    bundle: true,
    logLevel: 'warning',
  });
  await chmod(join(outdir, 'main.js'), 0o755);
}
