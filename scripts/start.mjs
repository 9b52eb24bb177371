/**
 * `npm start`: the gateway, and a ZooKeeper of its own when none is configured. `npm run dev` adds `--watch`.
 *
 *   preparing ──▶ ZooKeeper starts ──▶ gateway starts ──(/readyz)──▶ ready
 *                                                                     │ SIGINT, SIGTERM, SIGHUP: exit code 0
 *                                                                     │ a child ends by itself: exit code 1
 *                                                                     ▼
 *                                            gateway drains, then ZooKeeper ends
 *
 * Both children have process groups of their own: a Ctrl-C reaches this process alone, which keeps that order.
 */
import { spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { endWithParent } from './lib/children.mjs';
import { build, checkNode, installPackages, ROOT } from './lib/install.mjs';
import { linesToTry } from './lib/lines-to-try.mjs';
import { startOwnZooKeeper } from './lib/own-zookeeper.mjs';
import { ask, clientsUrl, probeUrl } from './lib/replica-here.mjs';
import { assertPortFree, PortTakenError } from './lib/zookeeper.mjs';

const READY_POLL_MS = 100;
const READY_ANSWERS_MS = 2_000;
/** After this long the reasons are shown; the waiting goes on, because an ensemble may come up later. */
const READY_PATIENCE_MS = 20_000;
/** What the gateway gets on top of its own draining time before it is killed. */
const DRAIN_MARGIN_MS = 5_000;
const DRAIN_DEFAULT_MS = 10_000;
/** Of an address that is not loopback. */
const PAUSE_DEFAULT_MS = 5_000;

/** What a shell says of a program that Ctrl-C has ended. */
const INTERRUPTED = 130;

/** Settings of this script; the gateway would warn about them. */
const OWN_VARIABLES = ['POSTERN_DEV_ZOOKEEPER_PORT', 'POSTERN_ZOOKEEPER_VERSION', 'POSTERN_ZOOKEEPER_ARCHIVE'];

/** With which the image starts Node, too. */
const IMAGE_FLAGS = ['--enable-source-maps', '--min-semi-space-size=16', '--no-allocation-site-pretenuring'];

const { env } = process;
const watch = process.argv.includes('--watch');
const host = env['POSTERN_HOST'] || '127.0.0.1';
const port = Number(env['POSTERN_PORT'] || 7070);
const log = (/** @type {string} */ line) => console.log(`[postern] ${line}`);

/** @type {Awaited<ReturnType<typeof startOwnZooKeeper>> | undefined} */
let zookeeper;
/** @type {import('node:child_process').ChildProcess | undefined} */
let gateway;
/** @type {Promise<void> | undefined} */
let stopping;

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
  // npm passes on the signal that the terminal has sent already, and people press Ctrl-C twice: the second one changes
  // nothing.
  process.on(signal, () => void stop(0, `${signal}: stopping`));
}

try {
  checkNode();
  await installPackages(log);
  if (watch) await bundlePages();
  else await build(log);
  await checkGatewayPort();
  if (!env['POSTERN_ZOOKEEPER'] && !stopping) {
    zookeeper = await startOwnZooKeeper({ dataDir: resolve(ROOT, env['POSTERN_DATA_DIR'] || '.data'), env, log });
    const { exited, logFile } = zookeeper;
    void exited.then(() => stop(1, `ZooKeeper ended by itself; its log is ${logFile}`));
  }
  if (!stopping) {
    gateway = startGateway();
    await untilReady();
  }
} catch (error) {
  await stop(1, /** @type {Error} */ (error).message);
}

/** The gateway runs from its sources then; a browser cannot. */
async function bundlePages() {
  const { bundleBrowser } = await import('./lib/browser-bundle.mjs'); // its packages may not have been there
  await bundleBrowser(ROOT);
}

async function checkGatewayPort() {
  if (port === 0 || !Number.isInteger(port)) return; // the gateway judges what is no port
  await assertPortFree(port, host).catch((error) => {
    if (!(error instanceof PortTakenError)) return; // a host that is none: the gateway says it better
    throw new Error(
      `Port ${port} on ${host} is taken by another program: stop that, or set POSTERN_PORT to another port.`,
    );
  });
}

function startGateway() {
  const tsx = join(ROOT, 'node_modules', 'tsx', 'dist', 'cli.mjs');
  const args = watch
    ? [tsx, 'watch', '--clear-screen=false', '--include', 'openapi.yaml', join('src', 'main.ts')]
    : [...IMAGE_FLAGS, join('dist', 'main.js')];
  const gatewayEnv = { ...env };
  for (const name of OWN_VARIABLES) delete gatewayEnv[name];
  if (zookeeper) gatewayEnv['POSTERN_ZOOKEEPER'] = `${zookeeper.host}:${zookeeper.port}`;
  const child = spawn(process.execPath, args, {
    cwd: ROOT,
    env: gatewayEnv,
    stdio: ['ignore', 'inherit', 'inherit'],
    detached: true,
  });
  endWithParent(child, { signal: 'TERM', graceSeconds: Math.ceil(drainMs() / 1_000) });
  child.once('exit', (code, signal) => void stop(1, `The gateway ended by itself (${signal ?? `exit code ${code}`})`));
  return child;
}

function drainMs() {
  const own =
    Number(env['POSTERN_DRAIN_MS'] || DRAIN_DEFAULT_MS) + Number(env['POSTERN_DRAIN_PAUSE_MS'] || PAUSE_DEFAULT_MS);
  return (Number.isFinite(own) ? own : DRAIN_DEFAULT_MS) + DRAIN_MARGIN_MS;
}

async function untilReady() {
  if (port === 0) return log('Started; with POSTERN_PORT=0 the port is in the log line above');
  const url = probeUrl(env);
  if (url === undefined)
    return log(
      'Started; it answers only those who have a certificate, so set POSTERN_OPS_PORT to be told when it is ready',
    );
  const patienceEnds = performance.now() + READY_PATIENCE_MS;
  let complained = false;
  while (!stopping) {
    const { ready, why } = await askReady(url);
    if (ready) return sayReady();
    if (!complained && performance.now() > patienceEnds) {
      complained = true;
      log(`Not ready yet, still waiting: ${why}`);
    }
    await new Promise((done) => setTimeout(done, READY_POLL_MS));
  }
}

/** @param {string} url */
async function askReady(url) {
  try {
    const { status, text } = await ask(`${url}/readyz`, READY_ANSWERS_MS);
    return { ready: status === 200, why: `${status} ${text.trim()}` };
  } catch (error) {
    return { ready: false, why: /** @type {Error} */ (error).message };
  }
}

async function sayReady() {
  const url = clientsUrl(env);
  const lines = await linesToTry({ url, needsKey: Boolean(env['POSTERN_AUTH_FILE']) });
  log(`Ready on ${url} (documentation: ${url}/docs). Take a lease, lock something with it, look at the lock:`);
  console.log(`\n${lines.replace(/^(?=.)/gm, '  ')}`);
  log('Ctrl-C stops it');
}

/**
 * @param {number} code
 * @param {string} why
 */
function stop(code, why) {
  if (stopping) return stopping;
  if (!zookeeper && !gateway) {
    // Still preparing: nothing holds data yet, and what has been started ends with this process.
    if (why) console.error(why);
    process.exit(code === 0 ? INTERRUPTED : code);
  }
  (code === 0 ? console.log : console.error)(code === 0 ? `[postern] ${why}` : why);
  stopping = stopChildren(code);
  return stopping;
}

/** The gateway first, so that it can answer its waiters; ZooKeeper last. */
async function stopChildren(code) {
  if (gateway) await ended(gateway, drainMs());
  if (zookeeper) {
    await zookeeper.stop();
    await zookeeper.release();
  }
  process.exit(code);
}

/** @param {import('node:child_process').ChildProcess} child @param {number} withinMs */
async function ended(child, withinMs) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), withinMs);
  await exit;
  clearTimeout(timer);
}
