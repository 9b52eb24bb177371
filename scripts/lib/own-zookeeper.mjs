/**
 * The ZooKeeper that `npm start` brings along when none is configured: one server, on loopback, with data that stays.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './install.mjs';
import { run } from './run.mjs';
import {
  assertPortFree,
  checkJava,
  PortTakenError,
  provideZooKeeper,
  startZooKeeperServer,
  WITHOUT_WORKERS,
} from './zookeeper.mjs';

const DEFAULT_PORT = 2181;
const PORT_VARIABLE = 'POSTERN_DEV_ZOOKEEPER_PORT';

/** Expiry is counted in ticks: a lease ends up to one tick after its TTL. */
const TICK_MS = 1_000;

const CONFIG = {
  // Leases from one second to five minutes.
  minSessionTimeout: '1000',
  maxSessionTimeout: '300000',
  // Every attached lease is a connection from the same address; the default of 60 is for strangers.
  maxClientCnxns: '0',
  'autopurge.snapRetainCount': '3',
  'autopurge.purgeInterval': '1', // hours
};
// Room for 500 transactions of the largest size; see docs/deploying.md.
const JVM_FLAGS = ['-Xmx2g', '-Dzookeeper.extendedTypesEnabled=true'];
const FEW_CORES = 2;

const STALE_ENDS_WITHIN_MS = 10_000;

/**
 * @param {{ dataDir: string, env: NodeJS.ProcessEnv, log: (line: string) => void }} options
 * @returns {Promise<import('./zookeeper.mjs').ZooKeeperServer & { release(): Promise<void> }>}
 *   `release` is to be called when the server has ended
 */
export async function startOwnZooKeeper({ dataDir, env, log }) {
  const port = portFrom(env[PORT_VARIABLE]);
  const java = await checkJava();
  const { classpath, version } = await provideZooKeeper({
    version: env['POSTERN_ZOOKEEPER_VERSION'],
    cacheDir: join(ROOT, '.cache'),
    archive: env['POSTERN_ZOOKEEPER_ARCHIVE'],
    log,
  });
  const home = join(dataDir, 'zookeeper');
  const owner = join(home, 'owner.json');
  await mkdir(home, { recursive: true }).catch((error) => {
    throw new Error(`POSTERN_DATA_DIR is "${dataDir}", in which no directory can be made (${error.code}).`);
  });
  await endPredecessor(owner, home, log);
  await assertPortFree(port).catch((error) => {
    if (!(error instanceof PortTakenError)) throw error;
    throw new Error(
      `${capital(error.message)}: set POSTERN_ZOOKEEPER=127.0.0.1:${port} to use the ZooKeeper that runs there, ` +
        `or ${PORT_VARIABLE} to start one on another port.`,
    );
  });
  const server = await startZooKeeperServer({
    java,
    classpath,
    dataDir: home,
    clientPort: port,
    tickTime: TICK_MS,
    config: CONFIG,
    jvmFlags: availableParallelism() > FEW_CORES ? JVM_FLAGS : [...JVM_FLAGS, WITHOUT_WORKERS],
    ownProcessGroup: true, // Ctrl-C in the terminal is for the launcher, which ends the gateway first
  });
  await writeFile(owner, JSON.stringify({ launcher: process.pid, zookeeper: server.pid, port }) + '\n');
  log(`ZooKeeper ${version} serves on ${server.host}:${port}, data in ${home}`);
  return { ...server, release: () => rm(owner, { force: true }) };
}

/** @param {string | undefined} text */
function portFrom(text) {
  if (!text) return DEFAULT_PORT;
  const port = Number(text);
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return port;
  throw new Error(`${PORT_VARIABLE} is "${text}"; it must be a port, 1 to 65535.`);
}

/**
 * Two servers on one data directory would destroy it, and ZooKeeper itself does not lock it. A server whose launcher
 * has died is ended; one whose launcher lives belongs to somebody.
 */
async function endPredecessor(owner, home, log) {
  const text = await readFile(owner, 'utf8').catch(() => undefined);
  if (text === undefined) return;
  let left;
  try {
    left = JSON.parse(text);
  } catch {
    left = {}; // torn by a crash of the machine, after which nothing runs
  }
  if (!(await isOurServer(left.zookeeper, home))) return;
  if (isAlive(left.launcher)) {
    throw new Error(
      `Another start (process ${left.launcher}) already runs a ZooKeeper with the data in ${home}: ` +
        'stop it first, or set POSTERN_DATA_DIR to another directory.',
    );
  }
  log(`Stopping the ZooKeeper (process ${left.zookeeper}) that a start which crashed has left running`);
  process.kill(left.zookeeper, 'SIGTERM');
  const deadline = performance.now() + STALE_ENDS_WITHIN_MS;
  while (isAlive(left.zookeeper)) {
    if (performance.now() > deadline) process.kill(left.zookeeper, 'SIGKILL');
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** By its command line, which names the data directory: process numbers are used again. */
async function isOurServer(pid, home) {
  if (!isAlive(pid)) return false;
  const commandLine = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(async () => {
    const { output } = await run('ps', ['-p', String(pid), '-o', 'args='], { timeoutMs: 10_000 });
    return output;
  });
  return commandLine.includes(join(home, 'conf', 'zoo.cfg'));
}

function isAlive(pid) {
  if (!Number.isInteger(pid)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

function capital(sentence) {
  return sentence[0].toUpperCase() + sentence.slice(1);
}
