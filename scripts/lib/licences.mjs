/** What the licences of libraries ask of who hands them on inside of a bundle: their texts, in a file beside it. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** @typedef {import('esbuild').Metafile} Metafile */

/**
 * @param {string} root of the repository
 * @param {Metafile} metafile of the bundle
 * @returns {Promise<string>}
 * @throws Error if a library has none
 */
export async function licences(root, { outputs }) {
  const inputs = Object.values(outputs).flatMap((output) => Object.keys(output.inputs));
  const folders = inputs.map((input) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0]);
  const libraries = [...new Set(folders)].filter((folder) => folder !== undefined).sort();
  return (await Promise.all(libraries.map((folder) => licence(root, folder)))).join('\n\n');
}

/** @param {string} root @param {string} folder of the library, from the root */
async function licence(root, folder) {
  const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length);
  const file = (await readdir(join(root, folder))).find((one) => /^(licen[cs]e|copying)/i.test(one));
  if (file === undefined) throw new Error(`${folder} has no licence that can be handed on with it`);
  return `${name}\n\n${(await readFile(join(root, folder, file), 'utf8')).trim()}\n`;
}
