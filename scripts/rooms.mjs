/**
 * What lint does not see of the layout: circles of imports, also those that only a type closes, folders with too many
 * files, long parts of the contract, and exceptions (`lib/rooms.mjs`) that are not needed any more. The exit code says
 * whether all is well.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { ESLint } from 'eslint';
import ts from 'typescript';
import tseslint from 'typescript-eslint';
import { ROOT } from './lib/install.mjs';
import { FILE_MAX, LENGTHS } from './lib/lengths.mjs';
import { KNOWN_CIRCLES, KNOWN_IMPORTS, KNOWN_LENGTHS } from './lib/rooms.mjs';

/** More than these nobody reads as a list. */
const FILES_MAX = 24;

/** @typedef {Map<string, string[]>} Imports  what each file imports of ours, types included */

/** @param {string} folder @returns {string[]} the files in it and below, from the root of the project */
function filesBelow(folder) {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => posix.join(posix.relative(ROOT, entry.parentPath), entry.name));
}

/** @param {readonly string[]} files @returns {Imports} */
function importsOf(files) {
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const { importedFiles } = ts.preProcessFile(readFileSync(join(ROOT, file), 'utf8'), true, false);
      const imported = importedFiles
        .filter(({ fileName }) => fileName.startsWith('.'))
        .map(({ fileName }) => posix.join(posix.dirname(file), fileName).replace(/\.js$/, ''))
        .flatMap((path) => [path, `${path}.ts`, `${path}.tsx`]);
      return [file, imported.filter((path) => known.has(path))];
    }),
  );
}

/**
 * @param {Imports} imports
 * @param {string} from
 * @param {string} to
 * @returns {string[] | undefined} the files on a way, both ends included
 */
function way(imports, from, to) {
  const ways = [[from]];
  const seen = new Set([from]);
  for (let path = ways.shift(); path !== undefined; path = ways.shift()) {
    for (const next of imports.get(/** @type {string} */ (path.at(-1))) ?? []) {
      if (next === to) return [...path, to];
      if (!seen.has(next)) ways.push([...path, next]);
      seen.add(next);
    }
  }
  return undefined;
}

/** @param {Imports} imports @returns {Imports} without those that are known to close circles */
function withoutKnown(imports) {
  return new Map(
    [...imports].map(([file, to]) => [file, to.filter((other) => !KNOWN_CIRCLES.includes(`${file} → ${other}`))]),
  );
}

/** @param {Imports} imports @returns {string[]} */
function circles(imports) {
  const rest = withoutKnown(imports);
  const found = [];
  const named = new Set();
  for (const file of rest.keys()) {
    if (named.has(file)) continue;
    const circle = way(rest, file, file);
    if (circle === undefined) continue;
    for (const one of circle) named.add(one);
    found.push(`a circle: ${circle.join(' → ')}`);
  }
  const past = KNOWN_CIRCLES.filter((known) => {
    const [from = '', to = ''] = known.split(' → ');
    return !imports.get(from)?.includes(to) || way(rest, to, from) === undefined;
  });
  return [...found, ...past.map((known) => `closes no circle any more, strike it from lib/rooms.mjs: ${known}`)];
}

/** @param {Imports} imports @returns {string[]} */
function importsThatAreGone(imports) {
  return Object.entries(KNOWN_IMPORTS).flatMap(([file, known]) =>
    known
      .filter(
        (path) =>
          !imports.get(file)?.some((to) => to === path || (path.endsWith('/**') && to.startsWith(path.slice(0, -2)))),
      )
      .map((path) => `is not imported any more, strike it from lib/rooms.mjs: ${file} → ${path}`),
  );
}

/** @param {readonly string[]} files @returns {string[]} */
function crowdedFolders(files) {
  const counts = new Map();
  for (const file of files) counts.set(posix.dirname(file), (counts.get(posix.dirname(file)) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count > FILES_MAX)
    .map(([folder, count]) => `${folder} has ${count} files, ${FILES_MAX} are the most: give some of them a room`);
}

/** @param {readonly string[]} files @returns {string[]} those that lint does not read */
function longFiles(files) {
  return files.flatMap((file) => {
    const lines = readFileSync(join(ROOT, file), 'utf8').split('\n').length - 1;
    return lines > FILE_MAX ? [`${file} has ${lines} lines, ${FILE_MAX} are the most`] : [];
  });
}

/** @returns {Promise<string[]>} */
async function lengthsThatAreKept() {
  const eslint = new ESLint({
    cwd: ROOT,
    overrideConfigFile: true,
    overrideConfig: { files: ['**/*.{ts,tsx,mjs,js}'], languageOptions: { parser: tseslint.parser }, ...LENGTHS },
  });
  const problems = Object.entries(KNOWN_LENGTHS).map(async ([rule, globs]) => {
    const kept = await Promise.all(
      globs.map(async (glob) => {
        const results = await eslint.lintFiles(glob);
        return results.some(({ messages }) => messages.some(({ ruleId }) => ruleId === rule)) ? [] : [glob];
      }),
    );
    return kept.flat().map((glob) => `keeps ${rule}, strike it from lib/rooms.mjs: ${glob}`);
  });
  return (await Promise.all(problems)).flat();
}

const code = ['src', 'test', 'bench', 'scripts', 'docs', 'examples'].flatMap(filesBelow);
const source = code.filter((file) => /\.(tsx?|mjs|js)$/.test(file));
const imports = importsOf(source);
const contract = filesBelow('openapi');
const everything = ['src', 'test', 'bench', 'scripts', 'helm'].flatMap(filesBelow).concat(contract);
const problems = [
  ...circles(imports),
  ...importsThatAreGone(imports),
  ...crowdedFolders(everything),
  ...longFiles([...contract, ...everything.filter((file) => /\.(sh|css)$/.test(file))]),
  ...(await lengthsThatAreKept()),
];
for (const problem of problems) console.error(problem);
if (problems.length === 0)
  console.log(
    `${source.length} files import each other without a circle, the ${KNOWN_CIRCLES.length} known ones aside`,
  );
process.exitCode = problems.length === 0 ? 0 : 1;
