/**
 * Where the version stands besides package.json. `src/version.ts` reads it from there while it runs; these places
 * cannot, and have to be changed with each release.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const IMAGES = /(?<=\bpostern:)\d+\.\d+\.\d+[\w.-]*/g;
const CONTRACT = /(?<=^info:\n(?: {2}.*\n)*? {2}version: )\S+/gm;
const EXAMPLES = join('helm', 'examples');

/** @type {{ file: string, versions: RegExp }[]} */
const PLACES = [
  { file: 'package-lock.json', versions: /(?<="name": "postern",\n +"version": ")[^"]+/g },
  { file: join('openapi', 'openapi.yaml'), versions: CONTRACT },
  { file: 'openapi.yaml', versions: CONTRACT },
  { file: join('helm', 'postern', 'Chart.yaml'), versions: /(?<=^(?:version|appVersion): )\S+/gm },
  { file: join('helm', 'postern-sidecar', 'Chart.yaml'), versions: /(?<=^(?:version|appVersion): )\S+/gm },
  { file: join('helm', 'postern-sidecar', 'ci', 'program', 'values.yaml'), versions: IMAGES },
  { file: join('docs', 'deploying.md'), versions: IMAGES },
];

/** @param {string} root of the repository @returns {Promise<string>} the version of the package */
export async function versionOf(root) {
  return JSON.parse(await readFile(join(root, 'package.json'), 'utf8')).version;
}

/**
 * @param {string} root @returns {Promise<{ file: string, line: number, version: string }[]>} each version that stands
 *   somewhere
 * @throws {Error} if a place that should have a version has none
 */
export async function findVersions(root) {
  const found = [];
  for (const { file, text, versions } of await read(root))
    for (const match of text.matchAll(versions)) {
      const line = text.slice(0, match.index).split('\n').length;
      found.push({ file, line, version: match[0] });
    }
  return found;
}

/** @param {string} root @param {string} version @returns {Promise<string[]>} the files that have it now */
export async function setVersions(root, version) {
  const places = await read(root);
  for (const { file, text, versions } of places) await writeFile(join(root, file), text.replace(versions, version));
  return places.map(({ file }) => file);
}

/** @param {string} root */
async function read(root) {
  const examples = (await readdir(join(root, EXAMPLES))).map((name) => join(EXAMPLES, name));
  const places = [...PLACES, ...examples.map((file) => ({ file, versions: IMAGES }))];
  return Promise.all(
    places.map(async ({ file, versions }) => {
      const text = await readFile(join(root, file), 'utf8');
      if (text.search(versions) === -1) throw new Error(`${file}: the version is not where ${String(versions)} looks`);
      return { file, text, versions };
    }),
  );
}
