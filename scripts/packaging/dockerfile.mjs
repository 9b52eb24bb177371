/**
 * A Dockerfile, read, and its stages performed in plain directories: what a container engine would do with it, on a
 * machine that has none. The base images are not there, so a RUN finds the programs of this machine (and the Node that
 * is handed in), and must keep to paths below its WORKDIR. An instruction that is not known here is an error, never
 * skipped.
 */
import { cp, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { run } from '../lib/run.mjs';

const RUN_MS = 5 * 60_000;

/** What only describes the image; the rest is performed. */
const DESCRIPTIONS = ['LABEL', 'EXPOSE', 'STOPSIGNAL', 'HEALTHCHECK', 'ENTRYPOINT', 'CMD', 'USER'];

/**
 * @typedef {{ keyword: string, text: string, line: number }} Instruction
 * @typedef {{ name: string, base: string, argument: string | undefined, instructions: Instruction[] }} Stage
 * @typedef {{ root: string, workdir: string, env: Record<string, string>, user: string, entrypoint: string[],
 *   healthcheck: string[] }} Image
 */

/** `argument` of a stage is the ARG that names its base. @param {string} text @returns {Stage[]} */
export function readDockerfile(text) {
  /** @type {Stage[]} */
  const stages = [];
  /** @type {Map<string, string>} */
  const defaults = new Map();
  for (const { keyword, text: rest, line } of instructionsOf(text)) {
    if (keyword === 'ARG' && stages.length === 0) {
      const [, name = '', value = ''] = /^(\w+)=(\S+)$/.exec(rest) ?? [];
      defaults.set(name, value);
    } else if (keyword === 'FROM') {
      const [from = '', as, name] = rest.split(/\s+/);
      const argument = /^\$\{(\w+)\}$/.exec(from)?.[1];
      const base = argument === undefined ? from : defaults.get(argument);
      if (base === undefined) throw new Error(`line ${line}: there is no ARG ${argument} before the first FROM`);
      if (as !== undefined && as.toUpperCase() !== 'AS')
        throw new Error(`line ${line}: FROM ${rest} is not understood`);
      stages.push({ name: name ?? `${stages.length}`, base, argument, instructions: [] });
    } else {
      const stage = stages.at(-1);
      if (stage === undefined) throw new Error(`line ${line}: ${keyword} stands before the first FROM`);
      stage.instructions.push({ keyword, text: rest, line });
    }
  }
  return stages;
}

/** @param {string} text @returns {Instruction[]} */
function instructionsOf(text) {
  const found = [];
  let open = '';
  let start = 0;
  for (const [index, raw] of text.split('\n').entries()) {
    if (/^\s*(#|$)/.test(raw)) continue;
    if (open === '') start = index + 1;
    open += raw.replace(/\\$/, ' ');
    if (raw.endsWith('\\')) continue;
    const [, keyword = '', rest = ''] = /^\s*([A-Za-z]+)\s+(.*)$/.exec(open) ?? [];
    found.push({ keyword: keyword.toUpperCase(), text: rest.trim(), line: start });
    open = '';
  }
  return found;
}

/**
 * Performs every stage below `into`, one directory each.
 *
 * @param {readonly Stage[]} stages
 * @param {{ context: string, into: string, path: string }} options `path` is the PATH of the RUN lines
 * @returns {Promise<Image>} the last stage
 */
export async function performStages(stages, { context, into, path }) {
  const ignored = readIgnore(await readFile(join(context, '.dockerignore'), 'utf8'));
  /** @type {Map<string, Image>} */
  const images = new Map();
  for (const stage of stages) {
    const root = join(into, stage.name);
    await mkdir(root, { recursive: true });
    /** @type {Image} */
    const image = { root, workdir: '/', env: {}, user: '', entrypoint: [], healthcheck: [] };
    for (const instruction of stage.instructions) {
      try {
        await perform(image, instruction, { context, ignored, images, path });
      } catch (error) {
        const { message } = /** @type {Error} */ (error);
        throw new Error(`Dockerfile:${instruction.line}: ${instruction.keyword} ${instruction.text}: ${message}`);
      }
    }
    images.set(stage.name, image);
  }
  const last = stages.at(-1);
  return /** @type {Image} */ (images.get(last?.name ?? ''));
}

/** @param {Image} image @param {Instruction} instruction */
async function perform(image, { keyword, text }, surroundings) {
  if (keyword === 'WORKDIR') {
    image.workdir = resolve(image.workdir, text);
    await mkdir(image.root + image.workdir, { recursive: true });
  } else if (keyword === 'ENV') {
    Object.assign(image.env, assignments(text));
  } else if (keyword === 'COPY') {
    await copy(image, text, surroundings);
  } else if (keyword === 'RUN') {
    const cwd = image.root + image.workdir;
    const env = { HOME: cwd, PATH: surroundings.path, ...image.env, ...registrySettings() };
    const { problem, output } = await run('/bin/sh', ['-c', text], { timeoutMs: RUN_MS, cwd, env });
    if (problem) throw new Error(`${problem}\n${output.trim()}`);
  } else if (keyword === 'ENTRYPOINT') {
    image.entrypoint = words(text);
  } else if (keyword === 'HEALTHCHECK') {
    image.healthcheck = words(text.replace(/^(--\S+\s+)*CMD\s+/, ''));
  } else if (keyword === 'USER') {
    image.user = text;
  } else if (!DESCRIPTIONS.includes(keyword)) {
    throw new Error('this instruction is not known to the script');
  }
}

/** Where this machine's npm finds its registry and authority: an engine would be configured for that in its own way. */
function registrySettings() {
  const names = Object.keys(process.env).filter((name) =>
    /^(npm_config_\w+|NODE_EXTRA_CA_CERTS|https?_proxy|no_proxy)$/i.test(name),
  );
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

/** The exec form only: the shell form needs a shell. @param {string} text @returns {string[]} */
function words(text) {
  if (!text.startsWith('[')) throw new Error('the image has no shell: write it as ["program", "argument"]');
  return JSON.parse(text);
}

/** @param {string} text @returns {Record<string, string>} */
function assignments(text) {
  const found = [...text.matchAll(/([A-Za-z_]\w*)=("[^"]*"|\S+)/g)];
  return Object.fromEntries(found.map(([, name, value = '']) => [name, value.replace(/^"(.*)"$/, '$1')]));
}

/** @param {Image} image @param {string} text */
async function copy(image, text, { context, ignored, images }) {
  const parts = text.split(/\s+/);
  const options = parts.filter((part) => part.startsWith('--'));
  const names = parts.filter((part) => !part.startsWith('--'));
  const target = names.pop() ?? '';
  const stageName = options.map((option) => /^--from=(.+)$/.exec(option)?.[1]).find(Boolean);
  if (options.length !== (stageName ? 1 : 0)) throw new Error(`options other than --from are not known to the script`);
  const from = stageName === undefined ? context : images.get(stageName)?.root;
  if (from === undefined) throw new Error(`there is no stage ${stageName} before it`);
  const into = image.root + resolve(image.workdir, target);
  for (const name of names) {
    const source = join(from, name);
    const directory = (await stat(source)).isDirectory();
    const destination =
      !directory && (target.endsWith('/') || names.length > 1) ? join(into, name.split('/').at(-1) ?? '') : into;
    await mkdir(dirname(destination), { recursive: true });
    const visible = (path) => stageName !== undefined || !ignored(relative(context, path).split(sep).join('/'));
    if (!visible(source)) throw new Error(`.dockerignore hides ${name}`);
    await cp(source, destination, { recursive: true, filter: visible, verbatimSymlinks: true });
  }
}

/**
 * Patterns of .dockerignore without wildcards but the `*` that means everything; the last one that matches decides.
 * @param {string} text
 */
function readIgnore(text) {
  const patterns = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ shows: line.startsWith('!'), pattern: line.replace(/^!/, '') }));
  const unknown = patterns.find(({ pattern }) => pattern !== '*' && /[*?[\]\\]/.test(pattern));
  if (unknown) throw new Error(`.dockerignore: the pattern ${unknown.pattern} is not known to the script`);
  return (/** @type {string} */ path) => {
    const last = patterns.findLast(
      ({ pattern }) => pattern === '*' || path === pattern || path.startsWith(`${pattern}/`),
    );
    return last !== undefined && !last.shows;
  };
}

/** Every file below a directory, with its size and time: to see that a run has left no trace. @param {string} root */
export async function filesBelow(root) {
  /** @type {Record<string, string>} */
  const files = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const { size, mtimeMs } = await stat(path);
    files[relative(root, path)] = `${size} bytes of ${mtimeMs}`;
  }
  return files;
}
