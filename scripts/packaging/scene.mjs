/**
 * What several checks look at, made when the first of them asks and taken away at the end: the image, and what
 * compose.yaml would start of it. The replicas are the image's processes; balancer and Prometheus are Debian's, with
 * the settings of the compose file but for addresses.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { endWithParent } from '../lib/children.mjs';
import { ROOT } from '../lib/install.mjs';
import { buildImage, startInImage, untilHealthy } from './image.mjs';
import { debianEnvironment, tools } from './tools.mjs';
import { freePort, startZooKeepers } from './zookeepers.mjs';

const READY_WITHIN_MS = 60_000;
const POLL_MS = 100;
/** As often as Prometheus can: the checks wait for its scrapes. */
const SCRAPE_SECONDS = 1;

/** @type {(() => Promise<void>)[]} */
const leftovers = [];

/** @template {{ dispose(): Promise<void> }} T @param {() => Promise<T>} make @returns {() => Promise<T>} */
function shared(make) {
  /** @type {Promise<T> | undefined} */
  let made;
  return () => {
    made ??= make().then((thing) => {
      leftovers.push(() => thing.dispose());
      return thing;
    });
    return made;
  };
}

export const theImage = shared(buildImage);
export const theEnsemble = shared(() => startZooKeepers(3));
export const thePair = shared(startPair);
export const theBalancer = shared(startBalancer);
export const thePrometheus = shared(startPrometheus);

/** In the reverse order of their making. */
export async function disposeScene() {
  for (const dispose of leftovers.splice(0).reverse()) await dispose();
}

/** @param {string} what @param {() => Promise<unknown>} condition @param {number} [withinMs] */
export async function eventually(what, condition, withinMs = READY_WITHIN_MS) {
  const deadline = performance.now() + withinMs;
  let last = '';
  while (performance.now() < deadline) {
    try {
      if (await condition()) return;
    } catch (error) {
      last = `: ${/** @type {Error} */ (error).message}`;
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  throw new Error(`not within ${withinMs / 1_000} s: ${what}${last}`);
}

async function startPair() {
  const [image, ensemble] = await Promise.all([theImage(), theEnsemble()]);
  const replicas = await Promise.all([1, 2].map(() => startReplica(image, ensemble)));
  const dispose = async () => {
    await Promise.all(replicas.map((replica) => replica.stop()));
  };
  return { replicas, dispose };
}

async function startReplica(image, { connectString }) {
  const [port, opsPort] = [await freePort(), await freePort()];
  const settings = {
    POSTERN_ZOOKEEPER: connectString,
    POSTERN_HOST: '127.0.0.1',
    POSTERN_PORT: String(port),
    POSTERN_OPS_PORT: String(opsPort),
    POSTERN_SCHEDULE_SECONDS: 'true',
  };
  // With this machine as its root it sees /proc, as in a container.
  const started = startInImage(image, image.entrypoint, settings, { confined: false });
  await untilHealthy(image, started, settings, '/readyz');
  return {
    address: `127.0.0.1:${port}`,
    url: `http://127.0.0.1:${port}`,
    opsAddress: `127.0.0.1:${opsPort}`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    stop: () => started.stop(),
  };
}

/** @param {string} command @param {readonly string[]} args @param {NodeJS.ProcessEnv} env */
function startProgram(command, args, env) {
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  endWithParent(child);
  const exited = once(child, 'exit');
  const program = {
    output: '',
    alive: () => child.exitCode === null && child.signalCode === null,
    async stop() {
      if (!program.alive()) return;
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await exited;
      clearTimeout(timer);
    },
  };
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => (program.output = (program.output + chunk.toString()).slice(-10_000)));
  return program;
}

async function startBalancer() {
  const [{ replicas }, haproxy, base] = await Promise.all([thePair(), tools.haproxy(), debianEnvironment()]);
  const listen = `127.0.0.1:${await freePort()}`;
  const [one, two] = replicas;
  const env = { ...base, LISTEN: listen, POSTERN_1: one?.address, POSTERN_2: two?.address };
  const program = startProgram(haproxy, ['-W', '-db', '-f', join(ROOT, 'compose', 'haproxy.cfg')], env);
  const url = `http://${listen}`;
  try {
    await eventually('the balancer serves', async () => (await fetch(`${url}/readyz`)).ok);
  } catch (error) {
    await program.stop();
    throw new Error(`${/** @type {Error} */ (error).message}\n${program.output}`);
  }
  return { url, dispose: () => program.stop() };
}

async function startPrometheus() {
  const [{ replicas }, prometheus] = await Promise.all([thePair(), tools.prometheus()]);
  const dir = await mkdtemp(join(tmpdir(), 'postern-prometheus-'));
  const settings = parse(await readFile(join(ROOT, 'compose', 'prometheus.yaml'), 'utf8'));
  settings.global = { scrape_interval: `${SCRAPE_SECONDS}s`, evaluation_interval: `${SCRAPE_SECONDS}s` };
  settings.scrape_configs[0].static_configs = [{ targets: replicas.map(({ opsAddress }) => opsAddress) }];
  await writeFile(join(dir, 'prometheus.yml'), stringify(settings));
  await copyFile(join(ROOT, 'helm', 'postern', 'files', 'rules.yaml'), join(dir, 'rules.yaml'));
  const listen = `127.0.0.1:${await freePort()}`;
  const args = [
    `--config.file=${join(dir, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    `--web.listen-address=${listen}`,
    '--log.level=warn',
  ];
  const program = startProgram(prometheus, args, process.env);
  const dispose = async () => {
    await program.stop();
    await rm(dir, { recursive: true, force: true });
  };
  const url = `http://${listen}`;
  try {
    await eventually('Prometheus serves', async () => (await fetch(`${url}/-/ready`)).ok);
  } catch (error) {
    await dispose();
    throw new Error(`${/** @type {Error} */ (error).message}\n${program.output}`);
  }
  /** @param {string} path @param {Record<string, string>} [parameters] */
  const ask = async (path, parameters = {}) => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`);
    const answer = /** @type {any} */ (await response.json());
    if (answer.status !== 'success') throw new Error(answer.error);
    return answer.data;
  };
  return { url, ask, dispose };
}
