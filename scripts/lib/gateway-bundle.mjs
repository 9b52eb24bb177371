/**
 * The gateway as it is run: one file in place of a thousand, which takes half as much CPU to start. `main.js` and
 * `signals.js` stay as the compiler wrote them, because signals are heard before the rest is read.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as esbuild from 'esbuild';
import { JSON_SCHEMA, load } from 'js-yaml';
import { licences } from './licences.mjs';

/** For libraries that are CommonJS: they require modules of Node. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

/** An uncaught error shows the whole line that threw it. */
const LINE_CHARACTERS = 500;

/**
 * The contract as JSON, which is read in a tenth of the time. All of it is ASCII, so that its strings have one byte per
 * character, as the source has them.
 * @type {import('esbuild').Plugin}
 */
const contract = {
  name: 'the contract as JSON',
  setup(build) {
    const { absWorkingDir: root = '' } = build.initialOptions;
    build.onLoad({ filter: /[\\/]contract[\\/]document\.ts$/ }, async () => {
      const file = join(root, 'openapi.yaml');
      const json = JSON.stringify(load(await readFile(file, 'utf8'), { schema: JSON_SCHEMA }));
      const escaped = json.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
      return { contents: `export const documentOf = () => JSON.parse(${JSON.stringify(escaped)});` };
    });
  },
};

/**
 * Who has heard of a signal is known in one place.
 * @type {import('esbuild').Plugin}
 */
const signals = {
  name: 'the signals that main.js hears',
  setup(build) {
    build.onResolve({ filter: /\/signals\.js$/ }, () => ({ path: './signals.js', external: true }));
  },
};

/** @param {string} root of the repository */
export async function bundleGateway(root) {
  const { metafile } = await esbuild.build({
    absWorkingDir: root,
    entryPoints: ['src/run.ts'],
    outfile: 'dist/run.js',
    // The API of OpenTelemetry is shared with the SDK that an operator adds.
    external: ['@opentelemetry/api'],
    format: 'esm',
    platform: 'node',
    target: 'node20',
    bundle: true,
    minifyWhitespace: true,
    lineLimit: LINE_CHARACTERS,
    metafile: true,
    plugins: [contract, signals],
    banner: { js: REQUIRE },
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none', // licences.txt has them in full
    logLevel: 'warning',
  });
  await writeFile(join(root, 'dist', 'licences.txt'), await licences(root, metafile));
}
