/**
 * What is checked of the package as it would be published: packed, installed into an empty project, and used there, by
 * a program of each module system, by the compiler and from the command line, against the gateway of that package.
 */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { endWithParent } from '../lib/children.mjs';
import { ROOT } from '../lib/install.mjs';
import { eventually, theEnsemble } from './scene.mjs';
import { freePort } from './zookeepers.mjs';

const execute = promisify(execFile);
const NPM_MS = 5 * 60_000;

export const clientChecks = [
  { name: 'client: packed, installed into an empty project, and used there', check: packedAndUsed },
];

const USE = `
const postern = new Postern({ urls: [process.argv[2]], ttlMs: 5_000 });
const token = await postern.lock('packed').using({ waitMs: 10_000 }, ({ fencingToken, signal }) => {
  if (signal.aborted) throw signal.reason;
  return fencingToken;
});
await postern.queue('packed').push({ token });
for await (const job of postern.queue('packed').jobs()) {
  await job.ack();
  break;
}
const { body } = await postern.request('GET /v1/locks/{name}', { path: { name: 'packed' } });
console.log(JSON.stringify({ token, holders: body?.holderCount }));
await postern.close();
`;

/** The names of the contract and of the client are known; what they do not have is an error. */
const TYPED = `
import { Postern, HoldLostError, type Hold, type Schemas } from 'postern/client';
const postern = new Postern({ urls: ['http://127.0.0.1:1'] });
export async function use(): Promise<number> {
  await using hold: Hold = await postern.lock('x').acquire({ waitMs: 1 });
  const lock: Schemas['Lock'] = await postern.lock('x').show();
  const { body } = await postern.request('POST /v1/counters/{name}/add', { path: { name: 'x' }, body: { by: 1 } });
  // @ts-expect-error -- it has no such member
  lock.holder;
  // @ts-expect-error -- there is no such operation
  await postern.request('POST /v1/counters/{name}/subtract', { path: { name: 'x' }, body: { by: 1 } });
  if (hold.signal.reason instanceof HoldLostError) return hold.fencingToken;
  return body.value;
}
`;

async function packedAndUsed() {
  const dir = await mkdtemp(join(tmpdir(), 'postern-packed-'));
  try {
    const { stdout } = await execute('npm', ['pack', '--json', '--pack-destination', dir], {
      cwd: ROOT,
      timeout: NPM_MS,
    });
    const [{ filename, entryCount, size }] = JSON.parse(stdout.slice(stdout.indexOf('[\n')));
    const project = join(dir, 'project');
    await mkdir(project);
    await writeFile(join(project, 'package.json'), '{ "private": true }');
    const install = ['install', '--no-audit', '--no-fund', '--ignore-scripts', join(dir, filename)];
    await execute('npm', install, { cwd: project, timeout: NPM_MS });
    await usedAtTheGateway(project);
    await usedByCompiler(project);
    await usedWithoutInstallation(dir, filename);
    return `${entryCount} files, ${Math.round(size / 1024)} KiB packed`;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** @param {string} project */
async function usedAtTheGateway(project) {
  const { connectString } = await theEnsemble();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = { PATH: process.env['PATH'], POSTERN_ZOOKEEPER: connectString, POSTERN_PORT: String(port) };
  // What `npx postern-gateway` runs, and a signal reaches without npm in between.
  const gateway = spawn(join(project, 'node_modules', '.bin', 'postern-gateway'), { env, stdio: 'ignore' });
  endWithParent(gateway);
  try {
    await eventually('the gateway of the package is ready', async () => (await fetch(`${url}/readyz`)).ok);
    const programs = {
      'used.mjs': `import { Postern } from 'postern/client';\n${USE}`,
      'used.cjs': `const { Postern } = require('postern/client');\n(async () => {${USE}})();`,
    };
    for (const [file, text] of Object.entries(programs)) {
      await writeFile(join(project, file), text);
      const { stdout } = await execute(process.execPath, [file, url], { cwd: project, timeout: 60_000 });
      const { token, holders } = JSON.parse(stdout);
      if (!(token > 0) || holders !== 0) throw new Error(`${file} printed ${stdout}`);
    }
    await usedFromCommandLine(project, url);
  } finally {
    const ended = once(gateway, 'exit');
    gateway.kill();
    await ended;
  }
}

/** @param {string} project @param {string} url */
async function usedFromCommandLine(project, url) {
  const npx = (/** @type {string[]} */ ...words) =>
    execute('npx', ['--offline', 'postern', ...words], {
      cwd: project,
      timeout: NPM_MS,
      env: { ...process.env, POSTERN_URL: url },
    });
  const help = await npx('--help');
  if (!help.stdout.startsWith('usage: postern ')) throw new Error(`npx postern --help: ${help.stdout}`);
  await npx('doctor');
  const job = ['--', process.execPath, '-e', 'console.log(process.env.POSTERN_FENCING_TOKEN); process.exitCode = 7'];
  const { code, stdout } = await npx('lock', 'packed', ...job).catch((error) => error);
  if (code !== 7 || !(Number(stdout) > 0)) throw new Error(`npx postern lock: ${code}, ${stdout}`);
}

/** As README.md says, from the file alone. @param {string} dir @param {string} tarball */
async function usedWithoutInstallation(dir, tarball) {
  const elsewhere = join(dir, 'elsewhere');
  await mkdir(elsewhere);
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'));
  const words = ['--yes', '--package', join(dir, tarball), 'postern', '--version'];
  const { stdout } = await execute('npx', words, { cwd: elsewhere, timeout: NPM_MS });
  if (stdout.trim() !== version) throw new Error(`npx --package: ${stdout}`);
}

/** Under each way to resolve packages, by a program of each module system. @param {string} project */
async function usedByCompiler(project) {
  for (const types of ['@types/node', 'undici-types'])
    await cp(join(ROOT, 'node_modules', types), join(project, 'node_modules', types), { recursive: true });
  for (const file of ['typed.mts', 'typed.cts', 'typed.ts']) await writeFile(join(project, file), TYPED);
  const ways = [
    ['--module', 'node16', 'typed.mts', 'typed.cts'],
    ['--module', 'nodenext', 'typed.mts', 'typed.cts'],
    ['--module', 'esnext', '--moduleResolution', 'bundler', 'typed.ts'],
  ];
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  for (const way of ways) {
    const args = [tsc, '--noEmit', '--strict', '--target', 'es2022', '--types', 'node', ...way];
    await execute(process.execPath, args, { cwd: project, timeout: NPM_MS }).catch((error) => {
      throw new Error(`tsc ${way.join(' ')}:\n${error.stdout}`);
    });
  }
}
