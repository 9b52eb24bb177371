/**
 * One ZooKeeper server as a child process on loopback.
 *
 *   starting ──(answers `srvr` with a mode, and `conf` names our data directory)──▶ serving ──stop/kill──▶ exited
 *      └──(process ends, or the deadline passes)──▶ error with the last lines of its log
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { endWithParent } from './children.mjs';

const HOST = '127.0.0.1';
const READY_WITHIN_MS = 60_000;
const READY_POLL_MS = 50;
const WORD_ANSWERED_WITHIN_MS = 2_000;
const STOP_GRACE_MS = 10_000;
const LOG_TAIL_LINES = 12;

/**
 * The thread that watches the sockets also reads and writes them. For a server with one or two cores: handing each
 * packet to another thread and back takes a quarter of its CPU for a lock, two fifths of that for a heartbeat.
 */
export const WITHOUT_WORKERS = '-Dzookeeper.nio.numWorkerThreads=0';

/** Defaults of the JVM: a small heap, quick to start, no files left in /tmp. */
const JVM = [
  '-XX:+UseSerialGC',
  '-XX:-UsePerfData',
  '-Djava.net.preferIPv4Stack=true',
  '-Dzookeeper.admin.enableServer=false',
  // With it the end of a session that owns very much is written to the log, and no server can read that any more (ZOOKEEPER-4306).
  '-Dzookeeper.closeSessionTxn.enabled=false',
];

/**
 * @param {import('./zookeeper.mjs').ServerOptions} options
 * @returns {Promise<import('./zookeeper.mjs').ZooKeeperServer>}
 */
export async function startZooKeeperServer(options) {
  const dataDir = resolve(options.dataDir);
  const { clientPort, servers, myid } = options;
  const inEnsemble = servers !== undefined;
  await mkdir(dataDir, { recursive: true });
  const confDir = join(dataDir, 'conf');
  await writeConfiguration(confDir, dataDir, options);
  if (inEnsemble) await writeFile(join(dataDir, 'myid'), `${myid}\n`);
  await assertPortFree(clientPort);

  const logFile = join(dataDir, 'zookeeper.log');
  const child = spawnServer(options, { dataDir, confDir, logFile });
  /** @type {Promise<import('./zookeeper.mjs').Exit>} */
  const exited = new Promise((done) => {
    child.once('error', (error) => done({ code: null, signal: null, error }));
    child.once('exit', (code, signal) => done({ code, signal }));
  });
  endWithParent(child, { watchParent: options.watchParent ?? true });

  const server = {
    port: clientPort,
    host: HOST,
    pid: child.pid ?? -1,
    dataDir,
    logFile,
    exited,
    /** @param {NodeJS.Signals} signal */
    kill: (signal = 'SIGKILL') => child.kill(signal),
    async stop({ graceMs = STOP_GRACE_MS } = {}) {
      if (child.exitCode !== null || child.signalCode !== null) return exited;
      child.kill('SIGCONT'); // a paused process would not see the next one
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), graceMs);
      try {
        return await exited;
      } finally {
        clearTimeout(timer);
      }
    },
    word: (word) => fourLetterWord(clientPort, word),
    ready: (withinMs = READY_WITHIN_MS) => untilReady(server, withinMs),
  };
  if (options.waitUntilReady ?? true) {
    try {
      await server.ready(options.readyWithinMs);
    } catch (error) {
      child.kill('SIGKILL');
      throw error;
    }
  }
  return server;
}

/**
 * @param {import('./zookeeper.mjs').ServerOptions} options
 * @param {{ dataDir: string, confDir: string, logFile: string }} where
 */
function spawnServer(options, { dataDir, confDir, logFile }) {
  const log = openSync(logFile, 'a');
  const child = spawn(
    options.java,
    [
      ...JVM,
      ...(options.jvmFlags?.some((flag) => flag.startsWith('-Xmx')) ? [] : ['-Xmx256m']),
      ...(options.jvmFlags ?? []),
      // logback from Maven and Apache, log4j from Debian. Not through the class path: with a folder in it Java takes no archive of classes.
      `-Dlogback.configurationFile=${join(confDir, 'logback.xml')}`,
      `-Dlog4j.configuration=${pathToFileURL(join(confDir, 'log4j.properties')).href}`,
      '-cp',
      options.classpath,
      'org.apache.zookeeper.server.quorum.QuorumPeerMain',
      join(confDir, 'zoo.cfg'),
    ],
    { cwd: dataDir, stdio: ['ignore', log, log], detached: options.ownProcessGroup ?? false },
  );
  closeSync(log);
  return child;
}

/** @param {string} confDir @param {string} dataDir @param {import('./zookeeper.mjs').ServerOptions} options */
async function writeConfiguration(confDir, dataDir, { clientPort, tickTime, config, servers, logLevel = 'WARN' }) {
  const settings = {
    tickTime: String(tickTime),
    dataDir,
    clientPort: String(clientPort),
    clientPortAddress: HOST,
    'admin.enableServer': 'false',
    '4lw.commands.whitelist': '*',
    ...(servers ? { initLimit: '25', syncLimit: '20' } : {}),
    ...servers,
    ...config,
  };
  await mkdir(confDir, { recursive: true });
  // zoo.cfg is a Java properties file, in which a backslash escapes.
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value.replaceAll('\\', '\\\\')}\n`);
  await writeFile(join(confDir, 'zoo.cfg'), lines.join(''));
  // Both write to standard output, which is the log file. How servers elect and follow each other is told whatever the
  // level.
  await writeFile(
    join(confDir, 'logback.xml'),
    `<configuration><statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
<appender name="OUT" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %-5p [%t] %c{1}: %m%n</pattern></encoder></appender>
<logger name="org.apache.zookeeper.server.quorum" level="INFO"/><root level="${logLevel}"><appender-ref ref="OUT"/></root></configuration>\n`,
  );
  await writeFile(
    join(confDir, 'log4j.properties'),
    `log4j.rootLogger=${logLevel}, OUT\nlog4j.appender.OUT=org.apache.log4j.ConsoleAppender\nlog4j.appender.OUT.layout=org.apache.log4j.PatternLayout\nlog4j.appender.OUT.layout.ConversionPattern=%d %-5p [%t] %c{1}: %m%n\n`,
  );
}

/** The error of a taken port: it says so before Java has started, in one sentence. */
export class PortTakenError extends Error {
  /** @param {number} port @param {string} host */
  constructor(port, host) {
    super(`port ${port} on ${host} is taken by another program`);
    this.name = 'PortTakenError';
    this.port = port;
  }
}

/** @param {number} port @param {string} [host] */
export async function assertPortFree(port, host = HOST) {
  await new Promise((done, fail) => {
    const probe = createServer();
    probe.once('error', (error) =>
      fail(/** @type {NodeJS.ErrnoException} */ (error).code === 'EADDRINUSE' ? new PortTakenError(port, host) : error),
    );
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => done(undefined)));
  });
}

/**
 * The answer to one of ZooKeeper's four letter words (`ruok`, `srvr`, `cons`, …).
 * @param {number} port @param {string} word
 * @returns {Promise<string>}
 */
export function fourLetterWord(port, word) {
  return new Promise((done, fail) => {
    const socket = connect({ port, host: HOST });
    let answer = '';
    socket.setTimeout(WORD_ANSWERED_WITHIN_MS, () => socket.destroy(new Error(`no answer to ${word} on port ${port}`)));
    socket.on('connect', () => socket.write(word));
    socket.on('data', (chunk) => (answer += chunk.toString()));
    socket.on('error', fail);
    socket.on('close', () => done(answer));
  });
}

async function untilReady(server, withinMs) {
  const deadline = performance.now() + withinMs;
  /** @type {import('./zookeeper.mjs').Exit | undefined} */
  let exit;
  void server.exited.then((how) => (exit = how));
  let last = 'no connection';
  while (performance.now() < deadline && exit === undefined) {
    try {
      last = await server.word('srvr');
      // The data directory proves that it is this server and not another one that took the port a moment earlier.
      if (last.includes('Mode: ') && (await server.word('conf')).includes(`dataDir=${server.dataDir}`)) return;
    } catch (error) {
      last = /** @type {Error} */ (error).message;
    }
    await new Promise((done) => setTimeout(done, READY_POLL_MS));
  }
  const why = exit
    ? `ended before it served (${exit.error?.message ?? exit.signal ?? `exit code ${exit.code}`})`
    : `does not serve after ${withinMs / 1000} s (${last.trim()})`;
  throw new Error(
    `ZooKeeper on port ${server.port} ${why}. The end of ${server.logFile}:\n${await tailOf(server.logFile)}`,
  );
}

async function tailOf(path) {
  const text = await readFile(path, 'utf8').catch(() => '');
  return text.trim().split('\n').slice(-LOG_TAIL_LINES).join('\n') || '(empty)';
}
