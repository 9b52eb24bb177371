/**
 * The container image: its Dockerfile performed in a clean directory, and the result run as a container would run it:
 * by the number of a user who may write nowhere and, where this machine allows it, with that directory as its root, in
 * which there is nothing but Node, the C library and the gateway.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { endWithParent } from '../lib/children.mjs';
import { ROOT } from '../lib/install.mjs';
import { run } from '../lib/run.mjs';
import { performStages, readDockerfile } from './dockerfile.mjs';
import { must, tools } from './tools.mjs';

const STOPS_WITHIN_MS = 15_000;
const ANSWERS_WITHIN_MS = 60_000;

/** As every engine sets it. */
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** @returns {Promise<import('./dockerfile.mjs').Image & { dispose(): Promise<void> }>} */
export async function buildImage() {
  const into = await mkdtemp(join(tmpdir(), 'postern-image-'));
  await chmod(into, 0o755); // the image's user has to get in
  try {
    const node = await tools.node24();
    const stages = readDockerfile(await readFile(join(ROOT, 'Dockerfile'), 'utf8'));
    const path = [dirname(node), process.env['PATH']].join(delimiter);
    const image = await performStages(stages, { context: ROOT, into, path });
    await addBase(image.root, node);
    return { ...image, dispose: () => rm(into, { recursive: true, force: true }) };
  } catch (error) {
    await rm(into, { recursive: true, force: true });
    throw error;
  }
}

/** What the base image of the last stage brings: Node, and the libraries that it is linked with. */
async function addBase(root, node) {
  await mkdir(join(root, 'nodejs', 'bin'), { recursive: true });
  await copyFile(node, join(root, 'nodejs', 'bin', 'node'));
  const { output } = await run('ldd', [node], { timeoutMs: 10_000 });
  for (const [, library = ''] of output.matchAll(/(?:=> )?(\/\S+) \(0x/g)) {
    await mkdir(dirname(root + library), { recursive: true });
    await copyFile(library, root + library);
  }
}

/** Whether this process may give another one a new root. */
export function mayConfine() {
  return process.platform === 'linux' && process.getuid?.() === 0;
}

/**
 * Starts a program of the image, with the environment of the image and what is added to it, and nothing from here.
 * @param {import('./dockerfile.mjs').Image} image
 * @param {readonly string[]} command
 * @param {Record<string, string>} settings
 * @param {{ confined?: boolean }} [options] with the image as its root, when this machine allows that
 */
export function startInImage(image, command, settings, { confined = true } = {}) {
  const env = { PATH, ...image.env, ...settings };
  const [program = '', ...args] = command;
  const [uid = 0, gid = 0] = image.user.split(':').map(Number);
  const inside = confined && mayConfine();
  const child = inside
    ? spawn('chroot', [`--userspec=${uid}:${gid}`, image.root, ...command], { env, stdio })
    : spawn(
        image.root + program,
        args.map((arg) => outside(image, arg)),
        {
          env,
          stdio,
          cwd: image.root + image.workdir,
          ...(process.getuid?.() === 0 ? { uid, gid } : {}),
        },
      );
  endWithParent(child);
  const started = { child, output: '', exited: once(child, 'exit'), stop };
  const keep = (chunk) => (started.output += chunk.toString());
  child.stdout?.on('data', keep);
  child.stderr?.on('data', keep);
  child.on('error', (error) => (started.output += error.message));
  async function stop() {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const timer = setTimeout(() => child.kill('SIGKILL'), STOPS_WITHIN_MS);
    child.kill('SIGTERM');
    await started.exited;
    clearTimeout(timer);
    return child.exitCode;
  }
  return started;
}

/** @type {import('node:child_process').StdioOptions} */
const stdio = ['ignore', 'pipe', 'pipe'];

/** Where a path of the image is on this machine. */
function outside(image, arg) {
  return arg.startsWith(`${image.workdir}/`) ? image.root + arg : arg;
}

/** Runs a program of the image to its end. @param {import('./dockerfile.mjs').Image} image */
export async function runInImage(image, command, settings) {
  const started = startInImage(image, command, settings);
  const timer = setTimeout(() => started.child.kill('SIGKILL'), ANSWERS_WITHIN_MS);
  await started.exited.catch(() => undefined);
  clearTimeout(timer);
  return { code: started.child.exitCode, output: started.output };
}

/** Waits until the healthcheck of the image says that a path answers. */
export async function untilHealthy(image, started, settings, path) {
  const deadline = performance.now() + ANSWERS_WITHIN_MS;
  let last = '';
  while (performance.now() < deadline && started.child.exitCode === null) {
    const { code, output } = await runInImage(image, [...image.healthcheck, path], settings);
    if (code === 0) return;
    last = output;
  }
  throw new Error(`not healthy: ${last}\n${started.output}`);
}

/** What the Dockerfile itself must be, before anything is performed. */
export async function lintDockerfile() {
  await must(await tools.hadolint(), ['--failure-threshold', 'info', join(ROOT, 'Dockerfile')]);
  const stages = readDockerfile(await readFile(join(ROOT, 'Dockerfile'), 'utf8'));
  const deploying = await readFile(join(ROOT, 'docs', 'deploying.md'), 'utf8');
  for (const { name, base, argument, instructions } of stages) {
    if (argument === undefined)
      throw new Error(`the stage ${name} stands on ${base}, for which no build can give a digest`);
    if (!deploying.includes(`--build-arg ${argument}=${base}@`))
      throw new Error(`docs/deploying.md does not say how ${argument} gets the digest of ${base}`);
    for (const { keyword, text } of instructions)
      if (keyword === 'RUN' && /\bnpm (ci|install)\b/.test(text) && !text.includes('--ignore-scripts'))
        throw new Error(`RUN ${text} runs what packages bring to be run`);
  }
  const last = stages.at(-1);
  const of = (keyword) => last?.instructions.filter((instruction) => instruction.keyword === keyword) ?? [];
  if (!/distroless/.test(last?.base ?? ''))
    throw new Error(`the last stage stands on ${last?.base}, which may have a shell`);
  if (of('RUN').length > 0) throw new Error('the last stage has a RUN: that needs a shell in the image');
  if (!/^[1-9]\d*:[1-9]\d*$/.test(of('USER').at(-1)?.text ?? ''))
    throw new Error('USER must be two numbers other than 0');
  for (const keyword of ['ENTRYPOINT', 'HEALTHCHECK'])
    if (of(keyword).length !== 1) throw new Error(`the last stage must have one ${keyword}`);
}

/** @returns {Promise<string>} what is in the image, in a few words */
export async function inspectImage(image) {
  const modules = await readdir(join(image.root, image.workdir, 'node_modules'));
  const { dependencies, devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) {
    await stat(join(image.root, image.workdir, 'node_modules', name));
  }
  const forDevelopment = Object.keys(devDependencies).filter(
    (name) => modules.includes(name) && !(name in dependencies),
  );
  if (forDevelopment.length > 0)
    throw new Error(`packages for development are in the image: ${forDevelopment.join(', ')}`);
  const top = await readdir(join(image.root, image.workdir));
  const expected = ['LICENSE', 'dist', 'node_modules', 'openapi.yaml', 'package.json', 'scripts'];
  if (top.sort().join() !== expected.join()) throw new Error(`the image holds ${top.join(', ')}`);
  const files = await readdir(image.root, { recursive: true });
  const shells = files.filter(
    (path) => /^(sh|bash|dash|busybox|npm|npx)$/.test(basename(path)) && !path.includes('node_modules'),
  );
  if (shells.length > 0) throw new Error(`there is a shell: ${shells.join(', ')}`);
  let bytes = 0;
  for (const path of files.filter((name) => name.startsWith(image.workdir.slice(1))))
    bytes += (await stat(join(image.root, path))).size;
  return `${modules.length} packages, ${(bytes / 1_048_576).toFixed(1)} MiB above Node's own image`;
}
